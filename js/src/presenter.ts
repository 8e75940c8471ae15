/**
 * Keeps the last picture and draws it to canvases: on the GPU, or with a 2d context.
 * A presenter never asks for frames, and never sees an element other than the canvas that it draws to.
 */

import { AlphaJpegDecoder } from "./decoders/alpha";
import { ForeignJpegError, JpegError } from "./decoders/bitstream";
import { BrowserDecoder, context2d, type Decoded, decodeToBitmap } from "./decoders/browser";
import { GrowingTexture } from "./decoders/growing-texture";
import { JpegDecoder } from "./decoders/jpeg";
import { PngDecoder } from "./decoders/png";
import { PngError } from "./decoders/png-file";
import { Compiled, type PictureFormat } from "./decoders/stages";
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
  #hasAlpha = false;
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
    this.#hasAlpha = frame.alpha !== null;
    if (this.#closed) {
      this.close();
    }
  }

  /** The picture kept with a part over it, on a canvas of its own, and the part closed. */
  #laidOver(part: Decoded, { width, height, alpha }: Frame, y: number): Decoded {
    const hasAlpha = alpha !== null;
    try {
      let picture = this.#picture;
      if (!(picture?.source instanceof OffscreenCanvas)) {
        const source = new OffscreenCanvas(width, height);
        if (picture) {
          context2d(source, hasAlpha).drawImage(picture.source, 0, 0);
        }
        picture = { source, width, height, close: () => {} };
      }
      const context = context2d(picture.source as OffscreenCanvas, hasAlpha);
      context.clearRect(0, y, width, part.height);
      context.drawImage(part.source, 0, y);
      return picture;
    } finally {
      part.close();
    }
  }

  draw(canvas: HTMLCanvasElement): void {
    if (this.#picture) {
      const context = context2d(canvas, this.#hasAlpha);
      context.globalCompositeOperation = "copy";
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

/** With our own decoder, on the GPU. What that does not read goes through the browser's decoder to the same texture. */
export class GpuPresenter implements Presenter {
  readonly name = "webgpu";
  readonly method = "";
  readonly #device: GPUDevice;
  readonly #jpeg: JpegDecoder;
  readonly #alphaJpeg: Compiled<"alpha", AlphaJpegDecoder>;
  readonly #png: PngDecoder;
  readonly #format: GPUTextureFormat;
  /** Where the device cannot make pictures in the format of its canvases. Else they are copied, which no GPU is slow at. */
  readonly #blit: GPURenderPipeline | null;
  readonly #contexts = new WeakMap<HTMLCanvasElement, GPUCanvasContext>();
  readonly #texture: GrowingTexture;
  #bindings: { texture: GPUTexture; group: GPUBindGroup } | null = null;
  #hasAlpha = false;
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
    this.#alphaJpeg = new Compiled(() => AlphaJpegDecoder.create(gpu, format));
    this.#png = new PngDecoder(gpu, format);
    if (!gpu.isSoftware) {
      this.prepare().catch((error) => console.warn("rfb_gpu:", error));
    }
    this.#format = format;
    this.#blit = blit;
    this.#texture = new GrowingTexture(gpu.device, {
      label: "rfb_gpu picture",
      format,
      // The last two are what copyExternalImageToTexture asks of its destination.
      usage:
        GPUTextureUsage.STORAGE_BINDING |
        (blit ? GPUTextureUsage.TEXTURE_BINDING : GPUTextureUsage.COPY_SRC) |
        GPUTextureUsage.COPY_DST |
        GPUTextureUsage.RENDER_ATTACHMENT,
    });
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
    this.#hasAlpha = frame.alpha !== null;
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
      const destination = { texture, origin, premultipliedAlpha: this.#hasAlpha };
      this.#device.queue.copyExternalImageToTexture({ source }, destination, [width, height]);
    } finally {
      picture.close();
    }
  }

  #decodeHere({ bytes, codec, part, width, height, alpha }: Frame): void {
    const target = () => this.#target(width, height);
    if (codec === "png") {
      this.#png.decode(bytes, width, part?.rows ?? height, target, part?.y, alpha !== null);
    } else if (alpha) {
      const decoder = this.#alphaJpeg.get("alpha");
      if (!decoder) {
        throw new ForeignJpegError("the decoder for alpha is being compiled");
      }
      decoder.decode(bytes, alpha, width, height, target);
    } else {
      this.#jpeg.decode(bytes, width, height, target);
    }
  }

  draw(canvas: HTMLCanvasElement): void {
    const picture = this.#texture.current;
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
      pass.setBindGroup(0, this.#groupFor(picture, this.#blit));
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
    this.#alphaJpeg.made("alpha")?.close();
    this.#png.close();
    this.#texture.destroy();
    this.#bindings = null;
  }

  /** The texture that holds the picture. */
  #target(width: number, height: number): GPUTexture {
    this.#pictureWidth = width;
    this.#pictureHeight = height;
    return this.#texture.reserve(width, height);
  }

  #groupFor(texture: GPUTexture, blit: GPURenderPipeline): GPUBindGroup {
    if (this.#bindings?.texture !== texture) {
      const entries = [{ binding: 0, resource: texture.createView() }];
      const group = this.#device.createBindGroup({ layout: blit.getBindGroupLayout(0), entries });
      this.#bindings = { texture, group };
    }
    return this.#bindings.group;
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
        alphaMode: this.#hasAlpha ? "premultiplied" : "opaque",
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
