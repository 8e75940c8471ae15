/**
 * Takes a JPEG file apart for the GPU decoder: the twin of rfb_gpu/codecs/jpeg/bitstream.py, which describes the format.
 * It decodes nothing, and never trusts the bytes: whatever it gives back has its bounds checked.
 */

const SOI = 0xd8;
const EOI = 0xd9;
const SOS = 0xda;
const DQT = 0xdb;
const DHT = 0xc4;
const DRI = 0xdd;
const SOF0 = 0xc0;
const APP9 = 0xe9;
const RST0 = 0xd0;
const RST7 = 0xd7;
const OTHER_SOF = new Set([0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf]);

/** Class and number of the tables that a scan of ours uses: DC luma, AC luma, DC chroma, AC chroma. */
const HUFFMAN_SLOTS = [0x00, 0x10, 0x01, 0x11];

/** One scan of all components, each with the tables that our encoder gives it, all 64 coefficients at once. */
const SCAN = "3,1,0,2,17,3,17,0,63,0";
const GRAY_SCAN = "1,1,0,0,63,0";

/** "RFBG" 0, version 4; then how many bits a count has (u8) and the first word (u32, little-endian). */
const INDEX_NAME = Uint8Array.of(0x52, 0x46, 0x42, 0x47, 0, 4);
const INDEX_HEAD_BYTES = 11;

export class JpegError extends Error {}

/** The bytes are no JPEG file, or a broken one. */
export class CorruptJpegError extends JpegError {}

/** A JPEG that is not decoded here: progressive, another subsampling, no restart markers. The browser may well read it. */
export class ForeignJpegError extends JpegError {}

export type Subsampling = "444" | "422" | "420" | "gray";

/** How a frame divides into MCUs and segments. */
export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly subsampling: Subsampling;
  readonly mcusPerRow: number;
  /** MCU rows. */
  readonly rows: number;
  readonly segmentsPerRow: number;
  readonly geometry: Geometry;
}

/** What the WGSL stages are specialised by. */
export interface Geometry {
  /** Luma blocks of an MCU, side by side and one below the other; chroma, where there is any, has one of each. */
  readonly lumaAcross: number;
  readonly lumaDown: number;
  readonly hasChroma: boolean;
  readonly mcuWidth: number;
  readonly mcuHeight: number;
  readonly blocksPerMcu: number;
  /** From one place where decoding can start to the next. */
  readonly mcusPerSegment: number;
}

function geometryOf(
  lumaAcross: number,
  lumaDown: number,
  hasChroma: boolean,
  mcusPerSegment: number,
): Geometry {
  const blocksPerMcu = lumaAcross * lumaDown + (hasChroma ? 2 : 0);
  return {
    lumaAcross,
    lumaDown,
    hasChroma,
    mcuWidth: 8 * lumaAcross,
    mcuHeight: 8 * lumaDown,
    blocksPerMcu,
    mcusPerSegment,
  };
}

export const GEOMETRY: Readonly<Record<Subsampling, Geometry>> = {
  "444": geometryOf(1, 1, true, 2),
  "422": geometryOf(2, 1, true, 2),
  "420": geometryOf(2, 2, true, 1),
  gray: geometryOf(1, 1, false, 6),
};

export interface HuffmanTable {
  /** Number of codes of 1 to 16 bits. */
  readonly counts: Uint8Array;
  /** In the order of their codes. */
  readonly symbols: Uint8Array;
}

export interface JpegFile {
  readonly layout: Layout;
  /** Of Y, Cb and Cr, or of Y alone, 64 each, in zigzag order. */
  readonly quantisers: Uint8Array;
  /** DC luma, AC luma, DC chroma, AC chroma; of gray the first two. */
  readonly huffman: readonly HuffmanTable[];
  /** The entropy-coded bytes, with stuffing and restart markers, without EOI. */
  readonly stream: Uint8Array<ArrayBuffer>;
  /** Two numbers for every entry, a place where decoding can start: its bit position in the stream and its first segment, counted
   * over all rows. Every row begins an entry. At the end once more two, the last of which is the number of segments. */
  readonly entries: Uint32Array<ArrayBuffer>;
}

export function layoutOf(width: number, height: number, subsampling: Subsampling): Layout {
  const geometry = GEOMETRY[subsampling];
  const mcusPerRow = Math.ceil(width / geometry.mcuWidth);
  return {
    width,
    height,
    subsampling,
    mcusPerRow,
    rows: Math.ceil(height / geometry.mcuHeight),
    segmentsPerRow: Math.ceil(mcusPerRow / geometry.mcusPerSegment),
    geometry,
  };
}

/** Reads a file, as far as our decoder takes it. Throws a CorruptJpegError or a ForeignJpegError. */
export function parse(data: Uint8Array<ArrayBuffer>): JpegFile {
  const quantisers = new Map<number, Uint8Array>();
  const huffman = new Map<number, HuffmanTable>();
  const index = new Map<number, IndexPart>();
  let frame: { layout: Layout; quantisers: Uint8Array } | null = null;
  let restartInterval = 0;
  let scan = "";
  let start = 0;

  for (const { code, payload, after } of segments(data)) {
    if (code === DQT) {
      readQuantisers(payload, quantisers);
    } else if (code === DHT) {
      readHuffman(payload, huffman);
    } else if (code === DRI && payload.length === 2) {
      restartInterval = u16(payload, 0);
    } else if (code === APP9) {
      readIndex(payload, index);
    } else if (code === SOF0) {
      frame = readFrame(payload);
    } else if (OTHER_SOF.has(code)) {
      throw new ForeignJpegError("only baseline JPEG is decoded here");
    } else if (code === SOS) {
      scan = payload.join();
      start = after;
    }
  }

  if (!frame) {
    throw new CorruptJpegError("the JPEG file has no frame header before its image data");
  }
  const { layout } = frame;
  const { hasChroma, blocksPerMcu } = layout.geometry;
  if (scan !== (hasChroma ? SCAN : GRAY_SCAN)) {
    throw new ForeignJpegError("only one scan of all components is decoded here");
  }
  if (layout.rows > 1 && restartInterval !== layout.mcusPerRow) {
    throw new ForeignJpegError("only files with a restart marker per MCU row are decoded here");
  }
  const used = HUFFMAN_SLOTS.slice(0, hasChroma ? 4 : 2).map((slot) => needed(huffman.get(slot)));
  const quantiserRows = new Uint8Array(frame.quantisers.length * 64);
  frame.quantisers.forEach((table, component) => {
    quantiserRows.set(needed(quantisers.get(table)), component * 64);
  });

  let stream = data.subarray(start);
  if (stream.length >= 2 && stream.at(-2) === 0xff && stream.at(-1) === EOI) {
    stream = stream.subarray(0, -2);
  }
  if (stream.length === 0) {
    throw new CorruptJpegError("the JPEG file ends before its image data");
  }
  // A block takes at least one bit for DC and one for its end. So nobody claims a size, and the memory for it, for nothing.
  if (stream.length * 8 < 2 * layout.rows * layout.mcusPerRow * blocksPerMcu) {
    throw new CorruptJpegError(
      `${stream.length} bytes of image data are too few for ${layout.width} x ${layout.height} pixels`,
    );
  }
  // Whoever changed a file may have left its index behind; the restart markers tell the truth.
  const entries = indexEntries(index, layout, stream.length + 2) ?? restartEntries(stream, layout);
  return { layout, quantisers: quantiserRows, huffman: used, stream, entries };
}

interface Segment {
  code: number;
  payload: Uint8Array;
  /** Offset of what follows. */
  after: number;
}

/** The marker segments from SOI up to and including SOS. */
function* segments(data: Uint8Array): Generator<Segment, void> {
  if (data.length < 4 || data[0] !== 0xff || data[1] !== SOI) {
    throw new CorruptJpegError("not a JPEG file: it does not begin with an SOI marker");
  }
  let at = 2;
  while (at + 4 <= data.length) {
    if (data[at] !== 0xff) {
      throw new CorruptJpegError(`a marker is missing at byte ${at} of the JPEG file`);
    }
    const code = data[at + 1]!;
    if (code === 0xff) {
      at += 1; // a fill byte
      continue;
    }
    const after = at + 2 + u16(data, at + 2);
    if (after < at + 4 || after > data.length) {
      throw new CorruptJpegError(`the marker at byte ${at} of the JPEG file has an impossible length`);
    }
    yield { code, payload: data.subarray(at + 4, after), after };
    if (code === SOS) {
      return;
    }
    at = after;
  }
  throw new CorruptJpegError("the JPEG file ends before its image data");
}

function readHuffman(payload: Uint8Array, tables: Map<number, HuffmanTable>): void {
  let rest = payload;
  while (rest.length > 0) {
    const counts = rest.subarray(1, 17);
    const total = counts.reduce((sum, count) => sum + count, 0);
    const symbols = rest.subarray(17, 17 + total);
    if (counts.length < 16 || symbols.length < total || total > 256) {
      throw new CorruptJpegError("a Huffman table is cut off");
    }
    let code = 0;
    counts.forEach((count, i) => {
      code += count;
      if (code > 2 ** (i + 1)) {
        throw new CorruptJpegError("a Huffman table has more codes than fit");
      }
      code *= 2;
    });
    tables.set(rest[0]!, { counts, symbols });
    rest = rest.subarray(17 + total);
  }
}

function readQuantisers(payload: Uint8Array, tables: Map<number, Uint8Array>): void {
  let rest = payload;
  while (rest.length > 0) {
    if (rest[0]! >> 4) {
      throw new ForeignJpegError("16-bit quantisation tables are not decoded here");
    }
    if (rest.length < 65) {
      throw new CorruptJpegError("a quantisation table is cut off");
    }
    tables.set(rest[0]!, rest.subarray(1, 65));
    rest = rest.subarray(65);
  }
}

function readFrame(payload: Uint8Array): { layout: Layout; quantisers: Uint8Array } {
  if (payload.length < 6) {
    throw new CorruptJpegError("the frame header is cut off");
  }
  if (payload[0] !== 8) {
    throw new ForeignJpegError(`files of ${payload[0]} bits a sample are not decoded here`);
  }
  if (payload.length !== 6 + 3 * payload[5]!) {
    throw new CorruptJpegError("the frame header has the wrong length");
  }
  const height = u16(payload, 1);
  const width = u16(payload, 3);
  if (width === 0 || height === 0) {
    throw new CorruptJpegError("the JPEG file has no size");
  }
  const column = (first: number) => payload.filter((_, i) => i >= 6 && i % 3 === first);
  const subsampling = SAMPLINGS[column(1).join()];
  if (!"1,2,3".startsWith(column(0).join()) || subsampling === undefined) {
    throw new ForeignJpegError("only 4:4:4, 4:2:2, 4:2:0 and gray are decoded here");
  }
  return { layout: layoutOf(width, height, subsampling), quantisers: column(2) };
}

/** By the sampling factors of the components. */
const SAMPLINGS: Readonly<Record<string, Subsampling>> = {
  [[0x11, 0x11, 0x11].join()]: "444",
  [[0x21, 0x11, 0x11].join()]: "422",
  [[0x22, 0x11, 0x11].join()]: "420",
  [[0x11].join()]: "gray",
};

// ----- where decoding can start

/** What one marker has of the index: words of 16 bits, the low ones of which are a count. */
interface IndexPart {
  countBits: number;
  bytes: Uint8Array;
}

function readIndex(payload: Uint8Array, parts: Map<number, IndexPart>): void {
  if (payload.length < INDEX_HEAD_BYTES || !startsWith(payload, INDEX_NAME)) {
    return;
  }
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  const countBits = view.getUint8(6);
  if (countBits > 0 && countBits < 16) {
    parts.set(view.getUint32(7, true), { countBits, bytes: payload.subarray(INDEX_HEAD_BYTES) });
  }
}

/** The entries that the index names, or null when there is none that fits the file. */
function indexEntries(
  parts: Map<number, IndexPart>,
  layout: Layout,
  streamBytes: number,
): Uint32Array<ArrayBuffer> | null {
  const { rows, segmentsPerRow } = layout;
  const allSegments = rows * segmentsPerRow;
  const ordered = [...parts].sort(([a], [b]) => a - b);
  const words = ordered.reduce((sum, [, { bytes }]) => sum + bytes.length / 2, 0);
  if (words === 0 || words > 2 * allSegments) {
    return null;
  }
  const entries = new Uint32Array(2 * (words + 1));
  let word = 0;
  let entry = 0;
  let position = 0;
  let end = 0;
  let segment = 0;
  let rowEnd = 0;
  for (const [first, { countBits, bytes }] of ordered) {
    if (first !== word || bytes.length % 2 !== 0) {
      return null; // a part is missing or cut off
    }
    const countMask = (1 << countBits) - 1;
    for (let at = 0; at < bytes.length; at += 2) {
      const here = bytes[at]! | (bytes[at + 1]! << 8);
      const count = here & countMask;
      if (count === 0) {
        end += here * 2 ** (16 - 2 * countBits); // the higher bits of the next one's number
        continue;
      }
      end += here >> countBits;
      if (segment === rowEnd) {
        if (position % 8 !== 0) {
          return null; // rows begin with bytes
        }
        rowEnd += segmentsPerRow;
      }
      entries[2 * entry] = position;
      entries[2 * entry + 1] = segment;
      entry += 1;
      segment += count;
      position = end;
      if (segment > rowEnd) {
        return null;
      }
    }
    word += bytes.length / 2;
  }
  if (segment !== allSegments || position > streamBytes * 8) {
    return null;
  }
  entries[2 * entry] = position;
  entries[2 * entry + 1] = segment;
  return entries.subarray(0, 2 * (entry + 1));
}

/** An entry per MCU row, by looking for the restart markers. */
function restartEntries(stream: Uint8Array, layout: Layout): Uint32Array<ArrayBuffer> {
  const entries = new Uint32Array(2 * (layout.rows + 1));
  for (let row = 0; row <= layout.rows; row++) {
    entries[2 * row + 1] = row * layout.segmentsPerRow;
  }
  entries[2 * layout.rows] = stream.length * 8;
  let found = 0;
  for (let at = stream.indexOf(0xff); at >= 0; at = stream.indexOf(0xff, at + 1)) {
    const next = stream[at + 1] ?? 0;
    if (next >= RST0 && next <= RST7) {
      found += 1;
      if (found < layout.rows) {
        entries[2 * found] = (at + 2) * 8;
      }
    }
  }
  if (found !== layout.rows - 1) {
    throw new CorruptJpegError(`the JPEG file has ${found} restart markers where ${layout.rows - 1} belong`);
  }
  return entries;
}

// ----- small things

function u16(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 8) | bytes[at + 1]!;
}

function startsWith(bytes: Uint8Array, start: Uint8Array): boolean {
  return start.every((byte, i) => bytes[i] === byte);
}

function needed<T>(table: T | undefined): T {
  if (table === undefined) {
    throw new CorruptJpegError("the JPEG file lacks a table that it uses");
  }
  return table;
}
