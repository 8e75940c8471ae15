// What the build puts in: shader files as text, and the release.

declare module "*.wgsl" {
  const text: string;
  export default text;
}

declare module "wgsl:*" {
  const text: string;
  export default text;
}

declare const __RFB_GPU_VERSION__: string;
