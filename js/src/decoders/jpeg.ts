/**
 * JPEG files to a texture on the GPU, with the two compute stages of rfb_gpu/codecs/jpeg: the twin of decoder.py there.
 * Takes the files of our encoder, and baseline files with a restart marker per MCU row. Once it has seen a frame of a
 * size it makes no GPU object for the next; it never reads anything back and never touches a pixel on the CPU.
 */
import huffmanDecode from "wgsl:jpeg/huffman_decode.wgsl";
import reconstruct from "wgsl:jpeg/reconstruct.wgsl";
import { type Gpu, once } from "../device";
import {
  CorruptJpegError,
  GEOMETRY,
  type HuffmanTable,
  type JpegFile,
  type Layout,
  parse,
  type Subsampling,
} from "./bitstream";
import { assemble } from "./wgsl";

// Mirrors huffman_decode.wgsl.
const FAST_BITS = 9;
const TABLE_LIMITS = 512;
const TABLE_OFFSETS = 528;
const TABLE_SYMBOLS = 544;
const TABLE_WORDS = 800;
const WORKGROUP = 64;

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

/** Buffers are a multiple of this long, so that a few bytes more do not make one grow. */
const BUFFER_ALIGNMENT = 256;

interface Stages {
  readonly huffmanDecode: GPUComputePipeline;
  readonly reconstruct: GPUComputePipeline;
}

type BufferName = "frame" | "stream" | "entries" | "huffman" | "tables" | "list" | "segments" | "entryDc";

export class JpegDecoder {
  readonly #device: GPUDevice;
  readonly #stages: Readonly<Record<Subsampling, Stages>>;
  readonly #buffers = new Map<BufferName, GPUBuffer>();
  #groups: {
    subsampling: Subsampling;
    target: GPUTexture;
    decode: GPUBindGroup;
    reconstruct: GPUBindGroup;
  } | null = null;
  #huffman: readonly HuffmanTable[] = [];
  #quantisers = new Uint8Array(0);

  /** Resolves once the stages are compiled; rejects if one is refused. */
  static async create(gpu: Gpu): Promise<JpegDecoder> {
    const [full, half] = await Promise.all([compile(gpu, "444"), compile(gpu, "420")]);
    return new JpegDecoder(gpu.device, { "444": full, "420": half });
  }

  private constructor(device: GPUDevice, stages: Readonly<Record<Subsampling, Stages>>) {
    this.#device = device;
    this.#stages = stages;
  }

  /**
   * Submits the decoding of a file of the given size, in pixels. The picture goes to the top-left corner of `target()`,
   * which is asked for only when nothing can fail any more: an rgba8unorm texture for storage.
   *
   * Throws a JpegError for a file that is not decoded here, and a RangeError for one that does not fit the device.
   */
  decode(data: Uint8Array<ArrayBuffer>, width: number, height: number, target: () => GPUTexture): void {
    const file = parse(data);
    const { layout } = file;
    if (layout.width !== width || layout.height !== height) {
      throw new CorruptJpegError(`the file is ${layout.width} x ${layout.height}, not ${width} x ${height}`);
    }
    this.#upload(file);
    const groups = this.#bind(layout, target());
    const stages = this.#stages[layout.subsampling];

    const commands = this.#device.createCommandEncoder({ label: "rfb_gpu jpeg decode" });
    const pass = commands.beginComputePass();
    pass.setPipeline(stages.huffmanDecode);
    pass.setBindGroup(0, groups.decode);
    pass.dispatchWorkgroups(Math.ceil(file.positions.length / WORKGROUP));
    pass.setPipeline(stages.reconstruct);
    pass.setBindGroup(0, groups.reconstruct);
    pass.dispatchWorkgroups(layout.segmentsPerRow, layout.rows);
    pass.end();
    this.#device.queue.submit([commands.finish()]);
  }

  /** Frees the buffers. The texture stays with whom it belongs to. */
  close(): void {
    for (const buffer of this.#buffers.values()) {
      buffer.destroy();
    }
    this.#buffers.clear();
    this.#groups = null;
  }

  #upload(file: JpegFile): void {
    const { layout, stream, positions } = file;
    const { queue } = this.#device;
    const blocks = layout.rows * layout.mcusPerRow * layout.geometry.blocksPerMcu;
    // A coefficient takes two bits or more, so half the bit position is place enough; then a DC element per block.
    const listWords = stream.length * 4 + blocks + 64;
    // All buffers before the first write: a frame that does not fit must leave the last one's data alone.
    const frame = this.#reserve("frame", 48, GPUBufferUsage.UNIFORM);
    const streamBuffer = this.#reserve("stream", stream.length + 4);
    const entries = this.#reserve("entries", positions.byteLength);
    const huffman = this.#reserve("huffman", 4 * TABLE_WORDS * 4);
    const tables = this.#reserve("tables", (192 + 64) * 4);
    this.#reserve("list", listWords * 4);
    this.#reserve("segments", layout.rows * layout.segmentsPerRow * 8);
    this.#reserve("entryDc", positions.length * 16);

    queue.writeBuffer(
      frame,
      0,
      Uint32Array.of(
        layout.width,
        layout.height,
        layout.mcusPerRow,
        layout.rows,
        layout.segmentsPerRow,
        file.mcusPerEntry,
        file.entriesPerRow,
        stream.length,
        listWords,
        0,
        0,
        0,
      ),
    );
    // writeBuffer takes multiples of four bytes: the last one to four go by themselves, filled up.
    const whole = stream.length & ~3;
    queue.writeBuffer(streamBuffer, 0, stream, 0, whole);
    const tail = new Uint8Array(4);
    tail.set(stream.subarray(whole));
    queue.writeBuffer(streamBuffer, whole, tail);
    queue.writeBuffer(entries, 0, positions);
    if (!sameTables(file.huffman, this.#huffman)) {
      file.huffman.forEach((table, i) => {
        queue.writeBuffer(huffman, i * TABLE_WORDS * 4, decodingTable(table));
      });
      this.#huffman = file.huffman.map(({ counts, symbols }) => ({
        counts: counts.slice(),
        symbols: symbols.slice(),
      }));
    }
    if (!sameBytes(file.quantisers, this.#quantisers)) {
      queue.writeBuffer(tables, 0, multipliers(file.quantisers));
      queue.writeBuffer(tables, 192 * 4, ZIGZAG);
      this.#quantisers = file.quantisers.slice();
    }
  }

  /** A buffer of at least so many bytes; one that has to grow gets half as much again, so that it seldom does. */
  #reserve(name: BufferName, bytes: number, usage: GPUBufferUsageFlags = GPUBufferUsage.STORAGE): GPUBuffer {
    const known = this.#buffers.get(name);
    if (known && known.size >= bytes) {
      return known;
    }
    const { maxStorageBufferBindingSize, maxBufferSize } = this.#device.limits;
    const limit = Math.min(maxStorageBufferBindingSize, maxBufferSize);
    if (bytes > limit) {
      throw new RangeError(`decoding needs a buffer of ${bytes} bytes, this GPU's limit is ${limit}`);
    }
    known?.destroy();
    const wanted = known ? Math.min(bytes * 1.5, limit) : bytes;
    const size = Math.ceil(wanted / BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT;
    const buffer = this.#device.createBuffer({
      label: `rfb_gpu ${name}`,
      size,
      usage: usage | GPUBufferUsage.COPY_DST,
    });
    this.#buffers.set(name, buffer);
    this.#groups = null;
    return buffer;
  }

  #bind(layout: Layout, target: GPUTexture) {
    const { subsampling } = layout;
    if (this.#groups?.subsampling !== subsampling || this.#groups.target !== target) {
      const stages = this.#stages[subsampling];
      this.#groups = {
        subsampling,
        target,
        decode: this.#group(stages.huffmanDecode, [
          "frame",
          "stream",
          "entries",
          "huffman",
          "list",
          "segments",
          "entryDc",
        ]),
        reconstruct: this.#group(
          stages.reconstruct,
          ["frame", "tables", "list", "segments", "entryDc"],
          target.createView(),
        ),
      };
    }
    return this.#groups;
  }

  #group(pipeline: GPUComputePipeline, names: BufferName[], view?: GPUTextureView): GPUBindGroup {
    const resources: GPUBindingResource[] = names.map((name) => ({ buffer: this.#buffers.get(name)! }));
    if (view) {
      resources.push(view);
    }
    return this.#device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: resources.map((resource, binding) => ({ binding, resource })),
    });
  }
}

async function compile(gpu: Gpu, subsampling: Subsampling): Promise<Stages> {
  const { mcuSize, blocksPerMcu, mcusPerSegment } = GEOMETRY[subsampling];
  const constants = {
    SUBSAMPLED: subsampling === "420",
    MCU_SIZE: mcuSize,
    BLOCKS_PER_MCU: blocksPerMcu,
    MCUS_PER_SEGMENT: mcusPerSegment,
  };
  const stage = (name: string, text: string) => {
    const code = assemble(text, constants);
    return once(gpu, code, () =>
      gpu.device.createComputePipelineAsync({
        label: `rfb_gpu ${name}`,
        layout: "auto",
        compute: {
          module: gpu.device.createShaderModule({ label: `rfb_gpu ${name}`, code }),
          entryPoint: name,
        },
      }),
    );
  };
  const [first, second] = await Promise.all([
    stage("huffman_decode", huffmanDecode),
    stage("reconstruct", reconstruct),
  ]);
  return { huffmanDecode: first, reconstruct: second };
}

/** The form of a Huffman table that huffman_decode.wgsl reads. */
export function decodingTable({ counts, symbols }: HuffmanTable): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(TABLE_WORDS);
  words.set(symbols, TABLE_SYMBOLS);
  let code = 0;
  let place = 0;
  for (let length = 1; length <= 16; length++) {
    const count = counts[length - 1]!;
    words[TABLE_OFFSETS + length - 1] = place - code;
    for (const symbol of symbols.subarray(place, place + count)) {
      if (length <= FAST_BITS) {
        const spare = FAST_BITS - length;
        words.fill((length << 8) | symbol, code << spare, (code + 1) << spare);
      }
      code += 1;
    }
    place += count;
    words[TABLE_LIMITS + length - 1] = count ? code << (16 - length) : 0;
    code <<= 1;
  }
  return words;
}

/** Quantiser times what the inverse DCT leaves to it, by component and zigzag position. */
function multipliers(quantisers: Uint8Array): Float32Array<ArrayBuffer> {
  return Float32Array.from(quantisers, (quantiser, i) => {
    const natural = ZIGZAG[i % 64]!;
    return (quantiser * AAN_SCALE[natural >> 3]! * AAN_SCALE[natural & 7]!) / 8;
  });
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
