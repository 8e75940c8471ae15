/** Compute stages that write a picture: bind group layouts, pipelines, and which of them are there yet. */
import { type Gpu, once } from "../device";
import { assemble, type Constants } from "./wgsl";

/** What the picture's texture may be. The shaders are written for the first. */
export type PictureFormat = "rgba8unorm" | "bgra8unorm";

/** The layout of a stage that binds these, in the order of its bindings; those after the bar it writes to. */
export function bindGroupLayout(
  device: GPUDevice,
  stage: string,
  names: readonly string[],
  format: PictureFormat,
): GPUBindGroupLayout {
  const bar = names.indexOf("|");
  return device.createBindGroupLayout({
    label: `rfb_gpu ${stage}`,
    entries: bound(names).map((name, binding): GPUBindGroupLayoutEntry => {
      const visibility = GPUShaderStage.COMPUTE;
      if (name === "picture") {
        return { binding, visibility, storageTexture: { access: "write-only", format } };
      }
      if (name === "colour" || name === "alpha") {
        return { binding, visibility, texture: {} };
      }
      const type = name === "frame" ? "uniform" : binding < bar ? "read-only-storage" : "storage";
      return { binding, visibility, buffer: { type } };
    }),
  });
}

/** Without the bar. */
export function bound<Name extends string>(names: readonly Name[]): Exclude<Name, "|">[] {
  return names.filter((name): name is Exclude<Name, "|"> => name !== "|");
}

/** The pipeline of a stage, shared by all canvases. */
export function compile(
  gpu: Gpu,
  stage: string,
  source: string,
  constants: Constants,
  layout: GPUBindGroupLayout,
  format: PictureFormat,
): Promise<GPUComputePipeline> {
  const { device } = gpu;
  const code = assemble(source, constants).replace("rgba8unorm", format);
  return once(gpu, code, () =>
    device.createComputePipelineAsync({
      label: `rfb_gpu ${stage}`,
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: {
        module: device.createShaderModule({ label: `rfb_gpu ${stage}`, code }),
        entryPoint: stage,
      },
    }),
  );
}

/** What is compiled for each kind of file, when the first one comes or before. */
export class Compiled<Kind extends string, Pipelines> {
  readonly #make: (kind: Kind) => Promise<Pipelines>;
  readonly #making = new Map<Kind, Promise<Pipelines>>();
  readonly #made = new Map<Kind, Pipelines>();

  constructor(make: (kind: Kind) => Promise<Pipelines>) {
    this.#make = make;
  }

  /** Null while it is being compiled, which this begins; and for ever if a stage is refused. */
  get(kind: Kind): Pipelines | null {
    if (!this.#making.has(kind)) {
      this.prepare(kind).catch((error) => console.warn("rfb_gpu:", error));
    }
    return this.#made.get(kind) ?? null;
  }

  /** Null unless it is compiled. */
  made(kind: Kind): Pipelines | null {
    return this.#made.get(kind) ?? null;
  }

  /** Resolves when it is compiled; rejects if a stage is refused. */
  prepare(kind: Kind): Promise<Pipelines> {
    const making =
      this.#making.get(kind) ??
      this.#make(kind).then((pipelines) => {
        this.#made.set(kind, pipelines);
        return pipelines;
      });
    this.#making.set(kind, making);
    return making;
  }
}
