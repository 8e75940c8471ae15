/**
 * Keeps the last picture and draws it to canvases: on the GPU, or with a 2d context.
 * A presenter never asks for frames, and never sees an element other than the canvas that it draws to.
 */

import { JpegError } from "./decoders/bitstream";
import { BrowserDecoder, type Decoded, decodeToBitmap } from "./decoders/browser";
import { JpegDecoder } from "./decoders/jpeg";
import { PngDecoder } from "./decoders/png";
import { PngError } from "./decoders/png-file";
import type { PictureFormat } from "./decoders/stages";
import { type Gpu, once } from "./device";
import type { DecoderName, Fit, Frame, RoadName } from "./protocol";
import blitWgsl from "./shaders/blit.wgsl";

/** What is known of the picture that a presenter keeps. */
export interface Picture {
  readonly id: number;
  readonly width: number;
  readonly height: number;
  readonly fit: Fit;
  readonly scale: number;
  readonly final: boolean;
  readonly road: RoadName;
  /** The frame that it was at first, and how many parts were laid over that. */
  readonly base: number;
  readonly parts: number;
}

export interface Presenter {
  readonly name: DecoderName;
  /** What `name` alone leaves open, as far as it is known: see the message `decoder`. */
  readonly method: string;
  /**
   * Makes the frame the picture kept, or lays the part that it is over that. On failure the last picture stays. One call at a time: whoever calls waits, so an
   * older frame that decodes slowly cannot land on top of a newer one.
   */
  decode(frame: Frame): Promise<void>;
  /** Draws the picture kept to a canvas that has its size. */
  draw(canvas: HTMLCanvasElement): void;
  /** Resolves when what was asked of it is done; on the GPU that is later than when the call returned. */
  done(): Promise<unknown>;
  close(): void;
}

/** With the browser's decoder and a 2d context. */
export class BrowserPresenter implements Presenter {
  readonly name = "browser";
  readonly #decoder = new BrowserDecoder();
  #picture: Decoded | null = null;
  #closed = false;

  get method(): string {
    return this.#decoder.method;
  }

  async decode(frame: Frame): Promise<void> {
    const decoded = await this.#decoder.decode(frame);
    const picture = frame.part ? this.#laidOver(decoded, frame, frame.part.y) : decoded;
    if (this.#picture !== picture) {
      this.#picture?.close();
    }
    this.#picture = picture;
    if (this.#closed) {
      this.close();
    }
  }

  /** The picture kept with a part over it, on a canvas of its own, and the part closed. */
  #laidOver(part: Decoded, { width, height }: Frame, y: number): Decoded {
    try {
      let picture = this.#picture;
      if (!(picture?.source instanceof OffscreenCanvas)) {
        const source = new OffscreenCanvas(width, height);
        if (picture) {
          context2d(source).drawImage(picture.source, 0, 0);
        }
        picture = { source, width, height, close: () => {} };
      }
      context2d(picture.source as OffscreenCanvas).drawImage(part.source, 0, y);
      return picture;
    } finally {
      part.close();
    }
  }

  draw(canvas: HTMLCanvasElement): void {
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) {
      throw new Error("the browser gave no 2d context");
    }
    if (this.#picture) {
      context.drawImage(this.#picture.source, 0, 0);
    }
  }

  async done(): Promise<void> {}

  close(): void {
    this.#closed = true;
    this.#picture?.close();
    this.#picture = null;
  }
}

function context2d(canvas: OffscreenCanvas): OffscreenCanvasRenderingContext2D {
  const context = canvas.getContext("2d", { alpha: false });
  if (!context) {
    throw new Error("the browser gave no 2d context");
  }
  return context;
}

/** Textures grow in steps of this many pixels, so that dragging a corner does not make one for each frame. */
const TEXTURE_STEP = 256;

/** With our own decoder, on the GPU. What that does not read goes through the browser's decoder to the same texture. */
export class GpuPresenter implements Presenter {
  readonly name = "webgpu";
  readonly method = "";
  readonly #device: GPUDevice;
  readonly #jpeg: JpegDecoder;
  readonly #png: PngDecoder;
  readonly #format: GPUTextureFormat;
  /** Where the device cannot make pictures in the format of its canvases. Else they are copied, which no GPU is slow at. */
  readonly #blit: GPURenderPipeline | null;
  readonly #contexts = new WeakMap<HTMLCanvasElement, GPUCanvasContext>();
  #texture: GPUTexture | null = null;
  #bindings: GPUBindGroup | null = null;
  #pictureWidth = 0;
  #pictureHeight = 0;

  /** Resolves once all shaders are compiled; rejects if one is refused. */
  static async create(gpu: Gpu): Promise<GpuPresenter> {
    const canvas = navigator.gpu.getPreferredCanvasFormat() as PictureFormat;
    const picture =
      canvas === "rgba8unorm" || gpu.device.features.has("bgra8unorm-storage") ? canvas : "rgba8unorm";
    const [jpeg, blit] = await Promise.all([
      JpegDecoder.create(gpu, picture),
      picture === canvas ? null : blitPipeline(gpu),
    ]);
    return new GpuPresenter(gpu, jpeg, picture, blit);
  }

  private constructor(gpu: Gpu, jpeg: JpegDecoder, format: PictureFormat, blit: GPURenderPipeline | null) {
    this.#device = gpu.device;
    this.#jpeg = jpeg;
    this.#png = new PngDecoder(gpu, format);
    if (!gpu.isSoftware) {
      this.prepare().catch((error) => console.warn("rfb_gpu:", error));
    }
    this.#format = format;
    this.#blit = blit;
  }

  /** Resolves when no kind of frame that our encoders make by themselves waits for a shader any more. */
  async prepare(): Promise<void> {
    await Promise.all([this.#jpeg.prepare(), this.#png.prepare()]);
  }

  async decode(frame: Frame): Promise<void> {
    const limit = this.#device.limits.maxTextureDimension2D;
    if (frame.width > limit || frame.height > limit) {
      throw new Error(`the frame is ${frame.width} x ${frame.height} pixels, this GPU's limit is ${limit}`);
    }
    try {
      this.#decodeHere(frame);
      return;
    } catch (error) {
      // The browser may well read what our own decoders refuse.
      if (!(error instanceof JpegError || error instanceof PngError)) {
        console.warn("rfb_gpu: the WebGPU decoder failed:", error);
      }
    }
    const picture = await decodeToBitmap(frame);
    try {
      const texture = this.#target(frame.width, frame.height);
      const { source, width, height } = picture;
      const origin = [0, frame.part?.y ?? 0];
      this.#device.queue.copyExternalImageToTexture({ source }, { texture, origin }, [width, height]);
    } finally {
      picture.close();
    }
  }

  #decodeHere({ bytes, codec, part, width, height }: Frame): void {
    const target = () => this.#target(width, height);
    if (codec === "png") {
      this.#png.decode(bytes, width, part?.rows ?? height, target, part?.y);
    } else {
      this.#jpeg.decode(bytes, width, height, target);
    }
  }

  draw(canvas: HTMLCanvasElement): void {
    const picture = this.#texture;
    if (!picture || canvas.width !== this.#pictureWidth || canvas.height !== this.#pictureHeight) {
      return;
    }
    const encoder = this.#device.createCommandEncoder();
    const texture = this.#context(canvas).getCurrentTexture();
    if (this.#blit) {
      const pass = encoder.beginRenderPass({
        colorAttachments: [{ view: texture.createView(), loadOp: "clear", storeOp: "store" }],
      });
      pass.setPipeline(this.#blit);
      pass.setBindGroup(0, this.#bindings);
      pass.draw(3);
      pass.end();
    } else {
      encoder.copyTextureToTexture({ texture: picture }, { texture }, [canvas.width, canvas.height]);
    }
    this.#device.queue.submit([encoder.finish()]);
  }

  done(): Promise<unknown> {
    return this.#device.queue.onSubmittedWorkDone();
  }

  close(): void {
    this.#jpeg.close();
    this.#png.close();
    this.#texture?.destroy();
    this.#texture = this.#bindings = null;
  }

  /** The texture that holds the picture, in its top-left corner. Grown when needed, never shrunk. */
  #target(width: number, height: number): GPUTexture {
    if (!this.#texture || this.#texture.width < width || this.#texture.height < height) {
      const limit = this.#device.limits.maxTextureDimension2D;
      const grown = (side: number, old = 0) =>
        Math.min(limit, Math.max(old, Math.ceil(side / TEXTURE_STEP) * TEXTURE_STEP));
      const size = [grown(width, this.#texture?.width), grown(height, this.#texture?.height)];
      this.#texture?.destroy();
      this.#texture = this.#device.createTexture({
        label: "rfb_gpu picture",
        size,
        format: this.#format,
        // The last two are what copyExternalImageToTexture asks of its destination.
        usage:
          GPUTextureUsage.STORAGE_BINDING |
          (this.#blit ? GPUTextureUsage.TEXTURE_BINDING : GPUTextureUsage.COPY_SRC) |
          GPUTextureUsage.COPY_DST |
          GPUTextureUsage.RENDER_ATTACHMENT,
      });
      this.#bindings =
        this.#blit &&
        this.#device.createBindGroup({
          layout: this.#blit.getBindGroupLayout(0),
          entries: [{ binding: 0, resource: this.#texture.createView() }],
        });
    }
    this.#pictureWidth = width;
    this.#pictureHeight = height;
    return this.#texture;
  }

  #context(canvas: HTMLCanvasElement): GPUCanvasContext {
    let context = this.#contexts.get(canvas);
    if (!context) {
      const fresh = canvas.getContext("webgpu");
      if (!fresh) {
        throw new Error("the browser gave no webgpu context");
      }
      fresh.configure({
        device: this.#device,
        format: this.#blit ? navigator.gpu.getPreferredCanvasFormat() : this.#format,
        usage: GPUTextureUsage.RENDER_ATTACHMENT | GPUTextureUsage.COPY_DST,
        alphaMode: "opaque",
      });
      this.#contexts.set(canvas, fresh);
      context = fresh;
    }
    return context;
  }
}

function blitPipeline(gpu: Gpu): Promise<GPURenderPipeline> {
  return once(gpu, blitWgsl, () => {
    const module = gpu.device.createShaderModule({ label: "rfb_gpu blit", code: blitWgsl });
    return gpu.device.createRenderPipelineAsync({
      label: "rfb_gpu blit",
      layout: "auto",
      vertex: { module },
      fragment: { module, targets: [{ format: navigator.gpu.getPreferredCanvasFormat() }] },
    });
  });
}
