/** JPEG files with a second, gray one behind them, which is the alpha channel, to a texture on the GPU. */
import type { Gpu } from "../device";
import mergeAlpha from "../shaders/merge_alpha.wgsl";
import { GrowingTexture } from "./growing-texture";
import { JpegDecoder } from "./jpeg";
import { bindGroupLayout, compile, type PictureFormat } from "./stages";

const BINDINGS = ["colour", "alpha", "|", "picture"] as const;
/** Mirrors merge_alpha.wgsl. */
const GROUP = 8;

/** What the merging reads is of the format that the decoders write by default. */
const PLANE: Omit<GPUTextureDescriptor, "size"> = {
  label: "rfb_gpu plane",
  format: "rgba8unorm",
  usage: 0x04 | 0x08, // TEXTURE_BINDING and STORAGE_BINDING, which are names only where there is WebGPU
};

export class AlphaJpegDecoder {
  readonly #device: GPUDevice;
  readonly #planes: readonly [GrowingTexture, GrowingTexture];
  #merging: { textures: readonly GPUTexture[]; group: GPUBindGroup } | null = null;

  /** Resolves once all stages are compiled; rejects if one is refused. */
  static async create(gpu: Gpu, format: PictureFormat): Promise<AlphaJpegDecoder> {
    const layout = bindGroupLayout(gpu.device, "merge_alpha", BINDINGS, format);
    const [colour, alpha, merge] = await Promise.all([
      JpegDecoder.create(gpu),
      JpegDecoder.create(gpu, "rgba8unorm", "gray"),
      compile(gpu, "merge_alpha", mergeAlpha, {}, layout, format),
    ]);
    return new AlphaJpegDecoder(gpu, colour, alpha, merge, layout);
  }

  // Two decoders: each keeps the tables of its own files.
  private constructor(
    gpu: Gpu,
    private readonly colour: JpegDecoder,
    private readonly alpha: JpegDecoder,
    private readonly merge: GPUComputePipeline,
    private readonly layout: GPUBindGroupLayout,
  ) {
    this.#device = gpu.device;
    this.#planes = [new GrowingTexture(gpu.device, PLANE), new GrowingTexture(gpu.device, PLANE)];
  }

  /** Like JpegDecoder.decode(); the second file begins at byte `alphaStart`. */
  decode(
    data: Uint8Array<ArrayBuffer>,
    alphaStart: number,
    width: number,
    height: number,
    target: () => GPUTexture,
  ): void {
    const [colour, alpha] = this.#planes;
    this.colour.decode(data.subarray(0, alphaStart), width, height, () => colour.reserve(width, height));
    this.alpha.decode(data.subarray(alphaStart), width, height, () => alpha.reserve(width, height));
    const commands = this.#device.createCommandEncoder({ label: "rfb_gpu merge" });
    const pass = commands.beginComputePass();
    pass.setPipeline(this.merge);
    pass.setBindGroup(0, this.#groupFor([colour.current!, alpha.current!, target()]));
    pass.dispatchWorkgroups(Math.ceil(width / GROUP), Math.ceil(height / GROUP));
    pass.end();
    this.#device.queue.submit([commands.finish()]);
  }

  close(): void {
    this.colour.close();
    this.alpha.close();
    for (const plane of this.#planes) {
      plane.destroy();
    }
    this.#merging = null;
  }

  #groupFor(textures: readonly GPUTexture[]): GPUBindGroup {
    if (!this.#merging || textures.some((texture, i) => texture !== this.#merging?.textures[i])) {
      const entries = textures.map((texture, binding) => ({ binding, resource: texture.createView() }));
      const group = this.#device.createBindGroup({
        label: "rfb_gpu merge_alpha",
        layout: this.layout,
        entries,
      });
      this.#merging = { textures, group };
    }
    return this.#merging.group;
  }
}
