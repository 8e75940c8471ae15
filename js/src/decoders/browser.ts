/**
 * Decodes a frame with the browser's own decoder: any JPEG or PNG, anywhere, without WebGPU.
 * It never touches a canvas. Whoever gets the bitmap closes it.
 */
import type { Frame } from "../protocol";

export async function decodeWithBrowser(frame: Frame): Promise<ImageBitmap> {
  const blob = new Blob([frame.bytes], { type: `image/${frame.codec}` });
  // The kernel's values are the ones to show: no colour profile and no alpha may change them on the way.
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  if (bitmap.width !== frame.width || bitmap.height !== frame.height) {
    const is = `${bitmap.width} x ${bitmap.height}`;
    bitmap.close();
    throw new Error(`the file is ${is} pixels, its message says ${frame.width} x ${frame.height}`);
  }
  return bitmap;
}
