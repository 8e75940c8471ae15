/**
 * Takes a PNG file of our encoder apart for the GPU decoder: the twin of rfb_gpu/codecs/png/file.py, which describes the format, and of
 * the reading part of deflate.py. It decodes nothing, and never trusts the bytes. It does not look at checksums: the way from the
 * kernel has its own.
 */

export class PngError extends Error {}

/** The bytes are no PNG file, or a broken one. */
export class CorruptPngError extends PngError {}

/** A PNG that is not decoded here: one without an index, which all but our own are. The browser may well read it. */
export class ForeignPngError extends PngError {}

/** What the GPU needs of a file. */
export interface PngFile {
  readonly width: number;
  readonly height: number;
  /** Bytes of a pixel in the rows. */
  readonly channels: number;
  /** RGBA, R lowest; 256 of them. */
  readonly palette: Uint32Array<ArrayBuffer> | null;
  /** The zlib stream. */
  readonly stream: Uint8Array<ArrayBuffer>;
  /** Lengths of the codes of literals, the end of the block and matches, and of distances. */
  readonly literals: Uint8Array;
  readonly distances: Uint8Array;
  /** The byte of a row, its filter's number included, where its second part begins; 0 if rows are not cut. */
  readonly cut: number;
  /** The bit of the stream where each part of each row begins. */
  readonly partBits: Uint32Array<ArrayBuffer>;
  readonly reachesAbove: boolean;
}

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const INDEX_VERSION = 2;
const INDEX_HEAD_BYTES = 3;
const REACHES_ABOVE = 1;
export const STRIPE_ROWS = 32;

/** Bytes of a pixel by colour type. */
const CHANNELS: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 6: 4 };
const INDEXED = 3;

/** Takes a file apart, or throws a PngError. */
export function parse(data: Uint8Array<ArrayBuffer>): PngFile {
  const chunks = chunksOf(data);
  const header = chunks.get("IHDR");
  const stream = chunks.get("IDAT");
  if (header?.length !== 13 || !stream) {
    throw new CorruptPngError("the file has no header, or no picture");
  }
  const view = new DataView(header.buffer, header.byteOffset, header.length);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [depth, colourType, compression, filtering, interlacing] = header.subarray(8);
  if (!width || !height || compression || filtering) {
    throw new CorruptPngError("the file's header is broken");
  }
  const channels = CHANNELS[colourType!];
  const index = chunks.get("rfIX");
  if (depth !== 8 || !channels || interlacing || chunks.has("tRNS") || !index) {
    throw new ForeignPngError("the file is not of our encoder");
  }
  if (index[0] !== INDEX_VERSION || index[2] !== STRIPE_ROWS) {
    throw new ForeignPngError("the file's index is of another version");
  }
  const palette = colourType === INDEXED ? paletteOf(chunks.get("PLTE")) : null;
  const { literals, distances, stop } = readHead(stream);
  const { cut, partBits } = readIndex(index.subarray(INDEX_HEAD_BYTES), height);
  if (partBits[0] !== stop || partBits[partBits.length - 1]! >= 8 * stream.length) {
    throw new CorruptPngError("the file's index points beyond its picture");
  }
  if (cut && (cut % 4 !== 1 || cut > width * channels)) {
    throw new CorruptPngError("the file's index cuts rows where they cannot be cut");
  }
  const reachesAbove = (index[1]! & REACHES_ABOVE) !== 0;
  return { width, height, channels, palette, stream, literals, distances, cut, partBits, reachesAbove };
}

/** The first chunk of each name. A second one of the picture makes the file a foreign one. */
function chunksOf(data: Uint8Array<ArrayBuffer>): Map<string, Uint8Array<ArrayBuffer>> {
  if (!SIGNATURE.every((byte, i) => data[i] === byte)) {
    throw new CorruptPngError("the bytes are no PNG file");
  }
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const found = new Map<string, Uint8Array<ArrayBuffer>>();
  let at = SIGNATURE.length;
  while (!found.has("IEND")) {
    const length = at + 12 <= data.length ? view.getUint32(at) : Number.POSITIVE_INFINITY;
    if (at + 12 + length > data.length) {
      throw new CorruptPngError("the file is cut off");
    }
    const name = String.fromCharCode(...data.subarray(at + 4, at + 8));
    if (found.has(name) && name === "IDAT") {
      throw new ForeignPngError("the file's picture is in pieces");
    }
    found.set(name, found.get(name) ?? data.subarray(at + 8, at + 8 + length));
    at += 12 + length;
  }
  return found;
}

function paletteOf(colours: Uint8Array | undefined): Uint32Array<ArrayBuffer> {
  if (!colours?.length || colours.length % 3 || colours.length > 768) {
    throw new CorruptPngError("the file's palette is broken");
  }
  const palette = new Uint32Array(256).fill(0xff000000);
  for (let i = 0; i < colours.length; i += 3) {
    palette[i / 3]! |= colours[i]! | (colours[i + 1]! << 8) | (colours[i + 2]! << 16);
  }
  return palette;
}

/** Where rows are cut, and the bit where each part begins. */
function readIndex(numbers: Uint8Array, rows: number): Pick<PngFile, "cut" | "partBits"> {
  let at = 0;
  /** A LEB128 number. */
  const next = () => {
    let value = 0;
    for (let shift = 1; shift <= 2 ** 28; shift *= 128) {
      const byte = numbers[at++] ?? 128;
      value += (byte & 127) * shift;
      if (byte < 128) {
        return value;
      }
    }
    throw new CorruptPngError("the file's index is broken");
  };
  const cut = next();
  const parts = cut ? 2 : 1;
  // Before there is room for as many as the file claims to have rows.
  if (numbers.length - at < parts * rows) {
    throw new CorruptPngError("the file's index has fewer entries than the picture has rows");
  }
  const partBits = new Uint32Array(parts * rows);
  const steps = [0, 0]; // of the row above
  let bit = 0;
  for (let i = 0; i < partBits.length; i++) {
    const number = next();
    const part = i % parts;
    steps[part]! += number % 2 ? -(number + 1) / 2 : number / 2;
    bit += steps[part]!;
    if (steps[part]! < 0 || bit >= 2 ** 32) {
      throw new CorruptPngError("the file's index points beyond the file");
    }
    partBits[i] = bit;
  }
  if (at !== numbers.length) {
    throw new CorruptPngError("the file's index has more entries than the picture has rows");
  }
  return { cut, partBits };
}

// ---- the codes of a deflate block (RFC 1951)

const SYMBOLS = 286;
const DISTANCE_SYMBOLS = 30;
const LONGEST_OF_DISTANCES = 7;
const LENGTHS_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/** By symbol from 16 on: fewest repetitions, extra bits. */
const LENGTH_RUNS = [
  [3, 2],
  [3, 3],
  [11, 7],
] as const;

interface BlockHead {
  literals: Uint8Array;
  distances: Uint8Array;
  /** The bit of the stream behind the head. */
  stop: number;
}

/** The head of a zlib stream and of its first block. */
function readHead(stream: Uint8Array): BlockHead {
  const [method = 0, flags = 0] = stream;
  if (stream.length < 6 || ((method << 8) | flags) % 31 || (method & 15) !== 8 || flags & 32) {
    throw new CorruptPngError("the file has no zlib stream");
  }
  let at = 16;
  const take = (count: number) => {
    let value = 0;
    for (let i = 0; i < count; i++, at++) {
      value |= (((stream[at >> 3] ?? 0) >> (at & 7)) & 1) << i;
    }
    return value;
  };
  if (take(3) !== 5) {
    throw new ForeignPngError("the file's stream is not one block with codes of its own");
  }
  const literalCount = 257 + take(5);
  const distanceCount = 1 + take(5);
  const sent = 4 + take(4);
  if (literalCount > SYMBOLS || distanceCount > DISTANCE_SYMBOLS) {
    throw new CorruptPngError("the file's codes are more than there can be");
  }
  const ofLengths = new Uint8Array(19);
  for (const symbol of LENGTHS_ORDER.slice(0, sent)) {
    ofLengths[symbol] = take(3);
  }
  const table = tableOf(ofLengths, (symbol) => symbol << 4);
  const window = table.length - 1;
  const lengths = new Uint8Array(literalCount + distanceCount);
  for (let i = 0; i < lengths.length; ) {
    const ahead = take(7);
    const entry = table[ahead & window]!;
    at -= 7 - (entry & 15);
    if ((entry & 15) === 0) {
      throw new CorruptPngError("the file has a code that is not in its table");
    }
    const symbol = entry >> 4;
    if (symbol < 16) {
      lengths[i++] = symbol;
      continue;
    }
    const [fewest, extra] = LENGTH_RUNS[symbol - 16]!;
    const count = fewest + take(extra);
    if ((symbol === 16 && i === 0) || i + count > lengths.length) {
      throw new CorruptPngError("the file's codes do not end where they should");
    }
    lengths.fill(symbol === 16 ? lengths[i - 1]! : 0, i, i + count);
    i += count;
  }
  if (at > 8 * stream.length) {
    throw new CorruptPngError("the file is cut off");
  }
  const literals = lengths.slice(0, literalCount);
  const distances = lengths.slice(literalCount);
  if (Math.max(...distances) > LONGEST_OF_DISTANCES) {
    throw new ForeignPngError("the file's codes of distances are longer than our encoder makes them");
  }
  return { literals, distances, stop: at };
}

/**
 * For each next bits, as many as the longest code has, the word of the symbol that they begin with and the length of its code; 0 for
 * none. Codes are canonical, first bit lowest.
 */
function tableOf(lengths: Uint8Array, wordOf: (symbol: number) => number): Uint32Array<ArrayBuffer> {
  const longest = Math.max(1, ...lengths);
  const size = 1 << longest;
  const table = new Uint32Array(size);
  let code = 0; // the next one, first bit highest, as if it had `longest` bits
  for (let length = 1; length <= longest; length++) {
    const step = 1 << length;
    for (let symbol = 0; symbol < lengths.length; symbol++) {
      if (lengths[symbol] !== length) {
        continue;
      }
      if (code >= size) {
        throw new CorruptPngError("the file's codes are more than there can be");
      }
      const word = wordOf(symbol) | length;
      for (let at = reversed(code, longest); at < size; at += step) {
        table[at] = word;
      }
      code += size >> length;
    }
  }
  if (code > size) {
    throw new CorruptPngError("the file's codes are more than there can be");
  }
  return table;
}

function reversed(bits: number, count: number): number {
  let value = 0;
  for (let i = 0; i < count; i++) {
    value |= ((bits >> i) & 1) << (count - 1 - i);
  }
  return value;
}

const IS_MATCH = 1 << 7;

/** What png/inflate_rows.wgsl reads for literals and lengths. */
export function literalTable({ literals }: PngFile): Uint32Array<ArrayBuffer> {
  return tableOf(literals, (symbol) => {
    if (symbol <= 256) {
      return (symbol & 255) << 8; // the end of the block comes in no row
    }
    const above = symbol - 257;
    if (symbol === SYMBOLS - 1) {
      return (258 << 8) | IS_MATCH;
    }
    const extra = Math.max((above >> 2) - 1, 0);
    const base = above < 8 ? 3 + above : 3 + ((4 + (above & 3)) << extra);
    return (base << 8) | IS_MATCH | (extra << 4);
  });
}

/** What png/inflate_rows.wgsl reads for distances. */
export function distanceTable({ distances }: PngFile): Uint32Array<ArrayBuffer> {
  return tableOf(distances, (symbol) => {
    const extra = Math.max((symbol >> 1) - 1, 0);
    const base = symbol < 4 ? 1 + symbol : 1 + ((2 + (symbol & 1)) << extra);
    return (base << 8) | (extra << 4);
  });
}
