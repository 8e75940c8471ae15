/**
 * JPEG files to a texture on the GPU, with the compute stages of rfb_gpu/codecs/jpeg: the twin of decoder.py there.
 * Takes the files of our encoder, and baseline files with a restart marker per MCU row. Once it has seen a frame of a
 * size it makes no GPU object for the next; it never reads anything back and never touches a pixel on the CPU.
 */
import huffmanDecode from "wgsl:jpeg/huffman_decode.wgsl";
import reconstruct from "wgsl:jpeg/reconstruct.wgsl";
import reconstructChroma from "wgsl:jpeg/reconstruct_chroma.wgsl";
import type { Gpu } from "../device";
import {
  CorruptJpegError,
  ForeignJpegError,
  GEOMETRY,
  type HuffmanTable,
  type JpegFile,
  type Layout,
  layoutOf,
  parse,
  type Subsampling,
} from "./bitstream";
import { Buffers } from "./buffers";
import { bindGroupLayout, bound, Compiled, compile, type PictureFormat } from "./stages";
import { Staging } from "./staging";

/** Of huffman_decode.wgsl, about: where entries are fewer, some threads stay idle, so that fewer neighbours wait for each other. */
const DECODING_THREADS = 16384;
const DECODING_GROUP = 128;

/** Mirrors shaders/blocks.wgsl: blocks that a workgroup has room for. */
const GROUP_BLOCKS = 96;

// Mirrors huffman_decode.wgsl.
const FAST_BITS = 10;
const FAST_SIZE = 1 << FAST_BITS;
const END_OF_BLOCK = 1 << 19;
const COEFFICIENT = 1 << 20;

/** Natural index (row * 8 + column) of each position in zigzag order: diagonals, turning at every edge. */
const ZIGZAG = Uint32Array.from({ length: 64 }, (_, natural) => natural).sort((a, b) => {
  const [rowA, rowB] = [a >> 3, b >> 3];
  const [diagonalA, diagonalB] = [rowA + (a & 7), rowB + (b & 7)];
  return diagonalA - diagonalB || (diagonalA % 2 ? rowA - rowB : rowB - rowA);
});

/** What the inverse DCT of Arai, Agui and Nakajima leaves to the quantisation tables, by frequency. */
const AAN_SCALE = Float64Array.from({ length: 8 }, (_, k) =>
  k ? Math.SQRT2 * Math.cos((k * Math.PI) / 16) : 1,
);

type BufferName =
  | "frame"
  | "stream"
  | "entries"
  | "huffman"
  | "tables"
  | "list"
  | "segments"
  | "entryDc"
  | "chroma";

/** What a stage binds, in the order of its bindings; those after the bar it writes to. */
const STAGES = {
  huffman_decode: ["frame", "stream", "entries", "huffman", "|", "list", "segments", "entryDc"],
  reconstruct_chroma: ["frame", "tables", "list", "segments", "entryDc", "|", "chroma"],
  reconstruct: ["frame", "tables", "list", "segments", "entryDc", "chroma", "|", "picture"],
} as const satisfies Record<string, readonly (BufferName | "|" | "picture")[]>;

type StageName = keyof typeof STAGES;

const SOURCES: Readonly<Record<StageName, string>> = {
  huffman_decode: huffmanDecode,
  reconstruct_chroma: reconstructChroma,
  reconstruct,
};

type Pipelines = Readonly<Partial<Record<StageName, GPUComputePipeline>>>;
type Layouts = Readonly<Record<StageName, GPUBindGroupLayout>>;

export class JpegDecoder {
  readonly #device: GPUDevice;
  readonly #layouts: Layouts;
  readonly #pipelines: Compiled<Subsampling, Pipelines>;
  readonly #buffers: Buffers<BufferName>;
  readonly #staging: Staging;
  #groups = new Map<StageName, GPUBindGroup>();
  /** Of the stage that writes the picture: a caller may take turns between a few textures. */
  #pictureGroups = new WeakMap<GPUTexture, GPUBindGroup>();
  // What the buffers of the same names hold.
  #huffman: readonly HuffmanTable[] = [];
  #decodingOfFrame: readonly number[] = [];
  #quantisers = new Uint8Array(0);

  /**
   * Resolves once the stages are compiled for one subsampling; rejects if one is refused. The others are compiled when the first such
   * file comes, so that no page waits for them, or by prepare().
   */
  static async create(
    gpu: Gpu,
    format: PictureFormat = "rgba8unorm",
    subsampling: Subsampling = "444",
  ): Promise<JpegDecoder> {
    const decoder = new JpegDecoder(gpu, format);
    await decoder.#pipelines.prepare(subsampling);
    return decoder;
  }

  /** Compiles what thin links need; resolves when that is done. */
  async prepare(): Promise<void> {
    await this.#pipelines.prepare("420");
  }

  private constructor(gpu: Gpu, format: PictureFormat) {
    this.#device = gpu.device;
    const layout = (stage: StageName) => bindGroupLayout(gpu.device, stage, STAGES[stage], format);
    const layouts: Layouts = {
      huffman_decode: layout("huffman_decode"),
      reconstruct_chroma: layout("reconstruct_chroma"),
      reconstruct: layout("reconstruct"),
    };
    this.#layouts = layouts;
    this.#pipelines = new Compiled((subsampling) => compileAll(gpu, layouts, subsampling, format));
    this.#buffers = new Buffers<BufferName>(gpu.device, (name) => {
      if (name === "huffman") {
        this.#huffman = [];
      } else if (name === "tables") {
        this.#quantisers = new Uint8Array(0);
      }
      this.#forgetGroups();
    });
    this.#staging = new Staging(gpu.device);
  }

  /**
   * Submits the decoding of a file of the given size, in pixels. The picture goes to the top-left corner of `target()`,
   * which is asked for only when nothing can fail any more: a texture for storage, of the format given to create().
   *
   * Throws a JpegError for a file that is not decoded here, or not yet, and a RangeError for one that does not fit the device.
   */
  decode(data: Uint8Array<ArrayBuffer>, width: number, height: number, target: () => GPUTexture): void {
    const file = parse(data);
    const { layout } = file;
    if (layout.width !== width || layout.height !== height) {
      throw new CorruptJpegError(`the file is ${layout.width} x ${layout.height}, not ${width} x ${height}`);
    }
    const pipelines = this.#pipelines.get(layout.subsampling);
    if (!pipelines) {
      throw new ForeignJpegError(`the decoder for ${layout.subsampling} is being compiled`);
    }
    const commands = this.#device.createCommandEncoder({ label: "rfb_gpu jpeg decode" });
    this.#upload(file, commands);
    const picture = target();

    const pass = commands.beginComputePass();
    for (const [stage, x, y] of dispatches(file)) {
      pass.setPipeline(pipelines[stage]!);
      pass.setBindGroup(0, this.#group(stage, picture));
      pass.dispatchWorkgroups(x, y);
    }
    pass.end();
    this.#staging.submit(commands);
  }

  /** Frees the buffers. The texture stays with whom it belongs to. */
  close(): void {
    this.#buffers.destroy();
    this.#staging.destroy();
    this.#forgetGroups();
  }

  #upload(file: JpegFile, commands: GPUCommandEncoder): void {
    const { layout, stream } = file;
    const entryCount = file.entries.length / 2 - 1;
    const { queue } = this.#device;
    const blocks = layout.rows * layout.mcusPerRow * layout.geometry.blocksPerMcu;
    // A coefficient takes two bits or more, so half the bit position is place enough; then a DC element per block.
    const listWords = stream.length * 4 + blocks + 64;
    const streamWords = Math.ceil(stream.length / 4);
    const chromaSamples = isSubsampled(layout) ? 64 * layout.rows * layout.mcusPerRow : 0;
    const decoding = sameTables(file.huffman, this.#huffman) ? null : decodingTables(file.huffman);
    const ofFrame = decoding?.ofFrame ?? this.#decodingOfFrame;
    // All buffers before the first write: a frame that does not fit must leave the last one's data alone.
    const frame = this.#buffers.reserve("frame", 64, GPUBufferUsage.UNIFORM);
    const streamBuffer = this.#buffers.reserve("stream", streamWords * 4);
    const entries = this.#buffers.reserve("entries", file.entries.byteLength);
    const tables = this.#buffers.reserve("tables", 192 * 4);
    this.#buffers.reserve("list", listWords * 4);
    this.#buffers.reserve("segments", layout.rows * layout.segmentsPerRow * 16);
    this.#buffers.reserve("entryDc", entryCount * 16);
    this.#buffers.reserve("chroma", chromaSamples * 4);
    const huffman = decoding && this.#buffers.reserve("huffman", decoding.words.byteLength);

    queue.writeBuffer(
      frame,
      0,
      Uint32Array.of(
        layout.width,
        layout.height,
        layout.mcusPerRow,
        layout.rows,
        layout.segmentsPerRow,
        entryCount,
        streamWords,
        listWords,
        ...ofFrame,
        threadsPerEntry(entryCount),
      ),
    );
    const { buffer, byteOffset, byteLength } = file.entries;
    this.#staging.upload(commands, [
      [streamBuffer, stream],
      [entries, new Uint8Array(buffer, byteOffset, byteLength)],
    ]);
    if (huffman) {
      queue.writeBuffer(huffman, 0, decoding.words);
      this.#decodingOfFrame = ofFrame;
      this.#huffman = file.huffman.map(({ counts, symbols }) => ({
        counts: counts.slice(),
        symbols: symbols.slice(),
      }));
    }
    if (!sameBytes(file.quantisers, this.#quantisers)) {
      queue.writeBuffer(tables, 0, multipliers(file.quantisers));
      this.#quantisers = file.quantisers.slice();
    }
  }

  #forgetGroups(): void {
    this.#groups.clear();
    this.#pictureGroups = new WeakMap();
  }

  #group(stage: StageName, picture: GPUTexture): GPUBindGroup {
    const known = stage === "reconstruct" ? this.#pictureGroups.get(picture) : this.#groups.get(stage);
    if (known) {
      return known;
    }
    const group = this.#device.createBindGroup({
      label: `rfb_gpu ${stage}`,
      layout: this.#layouts[stage],
      entries: bound<BufferName | "picture" | "|">(STAGES[stage]).map((name, binding) => ({
        binding,
        resource: name === "picture" ? picture.createView() : { buffer: this.#buffers.get(name) },
      })),
    });
    if (stage === "reconstruct") {
      this.#pictureGroups.set(picture, group);
    } else {
      this.#groups.set(stage, group);
    }
    return group;
  }
}

function isSubsampled({ geometry }: Layout): boolean {
  return geometry.hasChroma && geometry.lumaAcross > 1;
}

function threadsPerEntry(entries: number): number {
  return 2 ** Math.min(Math.floor(Math.log2(Math.max(DECODING_THREADS / entries, 1))), 5);
}

/** What the GPU does for a file, in order: a stage, and how many workgroups across and down. */
function dispatches({ layout, entries }: JpegFile): [StageName, number, number][] {
  const { geometry, segmentsPerRow, rows } = layout;
  const groups = (blocksTaken: number) =>
    Math.ceil(segmentsPerRow / Math.floor(GROUP_BLOCKS / (blocksTaken * geometry.mcusPerSegment)));
  const entryCount = entries.length / 2 - 1;
  const decodingGroups = Math.ceil((entryCount * threadsPerEntry(entryCount)) / DECODING_GROUP);
  const plan: [StageName, number, number][] = [["huffman_decode", decodingGroups, 1]];
  if (isSubsampled(layout)) {
    plan.push(["reconstruct_chroma", groups(2), rows]);
    plan.push(["reconstruct", groups(geometry.blocksPerMcu - 2), rows]);
  } else {
    plan.push(["reconstruct", groups(geometry.blocksPerMcu), rows]);
  }
  return plan;
}

async function compileAll(
  gpu: Gpu,
  layouts: Layouts,
  subsampling: Subsampling,
  format: PictureFormat,
): Promise<Pipelines> {
  const geometry = GEOMETRY[subsampling];
  const constants = {
    BLOCKS_PER_MCU: geometry.blocksPerMcu,
    MCUS_PER_SEGMENT: geometry.mcusPerSegment,
    MCU_WIDTH: geometry.mcuWidth,
    MCU_HEIGHT: geometry.mcuHeight,
    LUMA_ACROSS: geometry.lumaAcross,
    LUMA_DOWN: geometry.lumaDown,
  };
  const isUsed = (stage: StageName) =>
    stage !== "reconstruct_chroma" || isSubsampled(layoutOf(1, 1, subsampling));
  const compiled = (Object.keys(STAGES) as StageName[])
    .filter(isUsed)
    .map(async (stage) => [
      stage,
      await compile(gpu, stage, SOURCES[stage], constants, layouts[stage], format),
    ]);
  return Object.fromEntries(await Promise.all(compiled));
}

interface DecodingTables {
  /** The buffer `huffman` of huffman_decode.wgsl. */
  words: Uint32Array<ArrayBuffer>;
  /** The frame's `long_codes`. */
  ofFrame: number[];
}

/**
 * What each next 10 bits mean, by table; and then, for the longer codes that they begin, each next 16 bits. Codes of a
 * table are in ascending order, the short ones first, so each part is its codes one after the other, repeated by as many bits as
 * follow.
 */
export function decodingTables(tables: readonly HuffmanTable[]): DecodingTables {
  const fast = new Uint32Array(4 * FAST_SIZE);
  const parts = [fast];
  const ofFrame = new Array<number>(4).fill(0);
  let end = fast.length;
  tables.forEach(({ counts, symbols }, i) => {
    const isDc = i % 2 === 0;
    // What a code that the table does not have is taken for: a DC difference of 0, or the end of the block.
    const noCode = decodingWord(16, 0, 0, isDc ? COEFFICIENT : END_OF_BLOCK);
    const long = new Uint32Array(longWords(counts)).fill(noCode);
    let at = i * FAST_SIZE;
    let longAt = 0;
    let place = 0;
    counts.forEach((count, c) => {
      const length = c + 1;
      for (const symbol of symbols.subarray(place, place + count)) {
        const word = wordOf(symbol, length, isDc);
        if (length <= FAST_BITS) {
          const repeats = 1 << (FAST_BITS - length);
          fast.fill(word, at, at + repeats);
          at += repeats;
        } else {
          const repeats = 1 << (16 - length);
          long.fill(word, longAt, longAt + repeats);
          longAt += repeats;
        }
      }
      place += count;
    });
    ofFrame[i] = end - ((at - i * FAST_SIZE) << (16 - FAST_BITS));
    at += long.length / 64; // left 0, which says that the code goes on
    fast.fill(noCode, at, (i + 1) * FAST_SIZE);
    parts.push(long);
    end += long.length;
    const endOfBlock = endOfBlockCode(tables[i | 1]);
    if (endOfBlock) {
      takeEndOfBlock(fast.subarray(i * FAST_SIZE, (i + 1) * FAST_SIZE), endOfBlock);
    }
  });
  const words = new Uint32Array(end);
  let at = 0;
  for (const part of parts) {
    words.set(part, at);
    at += part.length;
  }
  return { words, ofFrame };
}

interface Code {
  bits: number;
  length: number;
}

/** The code for the end of a block in a table for AC. */
function endOfBlockCode(table: HuffmanTable | undefined): Code | null {
  let bits = 0;
  let place = 0;
  for (let length = 1; table && length <= 16; length++) {
    const count = table.counts[length - 1]!;
    const found = table.symbols.subarray(place, place + count).indexOf(0);
    if (found >= 0) {
      return { bits: bits + found, length };
    }
    place += count;
    bits = (bits + count) * 2;
  }
  return null;
}

/** Joins the entries of a table with the end of the block, where its code follows within the 10 bits. */
function takeEndOfBlock(fast: Uint32Array, { bits, length }: Code): void {
  fast.forEach((entry, window) => {
    const taken = entry & 31;
    const spare = FAST_BITS - taken - length;
    const follows = (window >> Math.max(spare, 0)) & ((1 << length) - 1);
    if (entry & COEFFICIENT && spare >= 0 && follows === bits) {
      fast[window] = (entry + (length << 5)) | END_OF_BLOCK;
    }
  });
}

/** How many 16-bit windows begin with codes of more than FAST_BITS, rounded up to whole groups of 64. */
function longWords(counts: Uint8Array): number {
  const windows = counts.reduce((sum, count, i) => (i < FAST_BITS ? sum : sum + (count << (15 - i))), 0);
  return Math.ceil(windows / 64) * 64;
}

/** What huffman_decode.wgsl does on a code. */
function wordOf(symbol: number, codeLength: number, isDc: boolean): number {
  if (isDc) {
    return decodingWord(codeLength, Math.min(symbol, 15), 0, COEFFICIENT);
  }
  if (symbol === 0xf0) {
    return decodingWord(codeLength, 0, 15, 0); // 16 zeros, of which the last is the position itself
  }
  const size = symbol & 15;
  return decodingWord(codeLength, size, size ? symbol >> 4 : 0, size ? COEFFICIENT : END_OF_BLOCK);
}

function decodingWord(codeLength: number, size: number, zeros: number, what: number): number {
  const length = codeLength + size;
  return (zeros << 28) | what | (size << 15) | (codeLength << 10) | (length << 5) | length;
}

/** Quantiser times what the inverse DCT leaves to it, by component, row by row, for samples of 0..1. */
function multipliers(quantisers: Uint8Array): Float32Array<ArrayBuffer> {
  const scaled = new Float32Array(quantisers.length);
  quantisers.forEach((quantiser, i) => {
    const natural = ZIGZAG[i % 64]!;
    const scale = AAN_SCALE[natural >> 3]! * AAN_SCALE[natural & 7]!;
    scaled[i - (i % 64) + natural] = (quantiser * scale) / (8 * 255);
  });
  return scaled;
}

function sameTables(a: readonly HuffmanTable[], b: readonly HuffmanTable[]): boolean {
  return (
    a.length === b.length &&
    a.every((table, i) => sameBytes(table.counts, b[i]!.counts) && sameBytes(table.symbols, b[i]!.symbols))
  );
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
