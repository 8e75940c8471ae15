/**
 * PNG files of our encoder to a texture on the GPU, with the compute stages of rfb_gpu/codecs/png: the twin of decoder.py there. Once it
 * has seen a frame of a size it makes no GPU object for the next, and it never touches a pixel on the CPU.
 */
import inflateRows from "wgsl:png/inflate_rows.wgsl";
import unfilterRows from "wgsl:png/unfilter_rows.wgsl";
import type { Gpu } from "../device";
import { Buffers } from "./buffers";
import {
  CorruptPngError,
  distanceTable,
  ForeignPngError,
  literalTable,
  type PngFile,
  parse,
  STRIPE_ROWS,
} from "./png-file";
import { bindGroupLayout, bound, Compiled, compile, type PictureFormat } from "./stages";
import { Staging } from "./staging";

// Mirrors inflate_rows.wgsl and shaders/png_rows.wgsl.
const ROW_PADDING = 3;
const DISTANCES = 128;
const LONGEST = 15;
/** A row keeps so many steps behind the one above it, whose matches reach a few bytes to the right. */
const STEP_BYTES = 32;
const LAG = 2;

type BufferName = "frame" | "stream" | "partBits" | "tables" | "rows" | "palette";
type StageName = keyof typeof STAGES;

/** What a stage binds, in the order of its bindings; those after the bar it writes to. */
const STAGES = {
  inflate_rows: ["frame", "stream", "partBits", "tables", "|", "rows"],
  unfilter_rows: ["frame", "rows", "palette", "|", "picture"],
} as const satisfies Record<string, readonly (BufferName | "|" | "picture")[]>;

/** A file's rows hold so many bytes a pixel, or the numbers of a palette's colours; or four, and colour is to be multiplied with alpha. */
type Kind = "1" | "3" | "4" | "palette" | "premultiplied";

/** What our encoder makes of canvases. */
const USUAL: readonly Kind[] = ["3", "palette"];

type Pipelines = Readonly<Record<StageName, GPUComputePipeline>>;

export class PngDecoder {
  readonly #device: GPUDevice;
  readonly #layouts: Readonly<Record<StageName, GPUBindGroupLayout>>;
  readonly #pipelines: Compiled<Kind, Pipelines>;
  readonly #buffers: Buffers<BufferName>;
  readonly #staging: Staging;
  #inflateGroup: GPUBindGroup | null = null;
  #pictureGroups = new WeakMap<GPUTexture, GPUBindGroup>();

  /** Compiles nothing: see prepare(). */
  constructor(gpu: Gpu, format: PictureFormat = "rgba8unorm") {
    this.#device = gpu.device;
    const layout = (stage: StageName) => bindGroupLayout(gpu.device, stage, STAGES[stage], format);
    const layouts = { inflate_rows: layout("inflate_rows"), unfilter_rows: layout("unfilter_rows") };
    this.#layouts = layouts;
    this.#pipelines = new Compiled(async (kind) => {
      // The first stage is the same for all kinds, and compiled once.
      const constants = {
        CHANNELS: kind === "palette" ? 1 : kind === "premultiplied" ? 4 : Number(kind),
        HAS_PALETTE: kind === "palette",
        PREMULTIPLIED: kind === "premultiplied",
      };
      const [inflate_rows, unfilter_rows] = await Promise.all([
        compile(gpu, "inflate_rows", inflateRows, {}, layouts.inflate_rows, format),
        compile(gpu, "unfilter_rows", unfilterRows, constants, layouts.unfilter_rows, format),
      ]);
      return { inflate_rows, unfilter_rows };
    });
    this.#buffers = new Buffers<BufferName>(gpu.device, () => {
      this.#inflateGroup = null;
      this.#pictureGroups = new WeakMap();
    });
    this.#staging = new Staging(gpu.device);
  }

  /** Compiles what our encoder makes of canvases; resolves when that is done. Else it is compiled when the first file comes. */
  async prepare(): Promise<void> {
    await Promise.all(USUAL.map((kind) => this.#pipelines.prepare(kind)));
  }

  /**
   * Submits the decoding of a file of the given size, in pixels. Its top-left corner goes to row `top` of `target()`, which is asked
   * for only when nothing can fail any more: a texture for storage, of the format given to the constructor. `premultiplied`: the colour
   * of a file with alpha is multiplied with it.
   *
   * Throws a PngError for a file that is not decoded here, or not yet, and a RangeError for one that does not fit the device.
   */
  decode(
    data: Uint8Array<ArrayBuffer>,
    width: number,
    height: number,
    target: () => GPUTexture,
    top = 0,
    premultiplied = false,
  ): void {
    const file = parse(data);
    if (file.width !== width || file.height !== height) {
      throw new CorruptPngError(`the file is ${file.width} x ${file.height}, not ${width} x ${height}`);
    }
    const plain = file.palette ? "palette" : (String(file.channels) as Kind);
    const pipelines = this.#pipelines.get(premultiplied && plain === "4" ? "premultiplied" : plain);
    if (!pipelines) {
      throw new ForeignPngError("the decoder is being compiled");
    }
    const commands = this.#device.createCommandEncoder({ label: "rfb_gpu png decode" });
    this.#upload(file, top, commands);
    const picture = target();

    const workgroups = [Math.ceil(height / STRIPE_ROWS), file.partBits.length / height] as const;
    const pass = commands.beginComputePass();
    pass.setPipeline(pipelines.inflate_rows);
    this.#inflateGroup ??= this.#group("inflate_rows");
    pass.setBindGroup(0, this.#inflateGroup);
    pass.dispatchWorkgroups(...workgroups);
    pass.setPipeline(pipelines.unfilter_rows);
    pass.setBindGroup(0, this.#groupFor(picture));
    pass.dispatchWorkgroups(...workgroups);
    pass.end();
    this.#staging.submit(commands);
  }

  /** Frees the buffers. The texture stays with whom it belongs to. */
  close(): void {
    this.#buffers.destroy();
    this.#staging.destroy();
    this.#inflateGroup = null;
    this.#pictureGroups = new WeakMap();
  }

  #upload(file: PngFile, top: number, commands: GPUCommandEncoder): void {
    const { width, height, stream, partBits, palette } = file;
    const rowBytes = 1 + width * file.channels;
    const rowWords = Math.ceil((ROW_PADDING + rowBytes) / 4);
    const literals = literalTable(file);
    const distances = distanceTable(file);
    const longest = Math.max(file.cut, rowBytes - file.cut);
    const [stepBytes, lag] = file.reachesAbove ? [STEP_BYTES, LAG] : [longest, 0];
    const steps = Math.ceil(longest / stepBytes) + lag * (STRIPE_ROWS - 1);
    // All buffers before the first write: a frame that does not fit must leave the last one's data alone.
    const frame = this.#buffers.reserve("frame", 48, GPUBufferUsage.UNIFORM);
    const streamBuffer = this.#buffers.reserve("stream", stream.length);
    const bits = this.#buffers.reserve("partBits", partBits.byteLength);
    const tables = this.#buffers.reserve("tables", 4 * (DISTANCES + (1 << LONGEST)));
    this.#buffers.reserve("rows", 4 * (height * rowWords + 8)); // some words are read from beyond
    const colours = this.#buffers.reserve("palette", 4 * 256);

    const { queue } = this.#device;
    queue.writeBuffer(
      frame,
      0,
      Uint32Array.of(
        width,
        height,
        rowBytes,
        rowWords,
        Math.ceil(stream.length / 4),
        Math.log2(literals.length),
        Math.log2(distances.length),
        steps,
        stepBytes,
        lag,
        top,
        ROW_PADDING + (file.cut || rowBytes),
      ),
    );
    this.#staging.upload(commands, [[streamBuffer, stream]]);
    queue.writeBuffer(bits, 0, partBits);
    queue.writeBuffer(tables, 0, distances);
    queue.writeBuffer(tables, 4 * DISTANCES, literals);
    if (palette) {
      queue.writeBuffer(colours, 0, palette);
    }
  }

  #groupFor(picture: GPUTexture): GPUBindGroup {
    const known = this.#pictureGroups.get(picture);
    const group = known ?? this.#group("unfilter_rows", picture);
    this.#pictureGroups.set(picture, group);
    return group;
  }

  #group(stage: StageName, picture?: GPUTexture): GPUBindGroup {
    return this.#device.createBindGroup({
      label: `rfb_gpu ${stage}`,
      layout: this.#layouts[stage],
      entries: bound<BufferName | "picture" | "|">(STAGES[stage]).map((name, binding) => ({
        binding,
        resource: name === "picture" ? picture!.createView() : { buffer: this.#buffers.get(name) },
      })),
    });
  }
}
