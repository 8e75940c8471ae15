import assert from "node:assert/strict";
import { test } from "node:test";
import { CorruptJpegError, ForeignJpegError, JpegError, parse } from "../src/decoders/bitstream";
import { decodingTables } from "../src/decoders/jpeg";

// ----- a small JPEG writer: the markers of our encoder around any bytes

const u16 = (value) => [value >> 8, value & 255];
const marker = (code, payload) => [0xff, code, ...u16(payload.length + 2), ...payload];
const little = (value, bytes) => Array.from({ length: bytes }, (_, i) => (value >> (8 * i)) & 255);

const COUNTS = [0, 2, 1, ...new Array(13).fill(0)];
const dht = (slot, symbols = [0, 1, 2], counts = COUNTS) => marker(0xc4, [slot, ...counts, ...symbols]);
const dqt = (slot, value) => marker(0xdb, [slot, ...new Array(64).fill(value)]);
const sof = (width, height, { code = 0xc0, sampling = 0x11, precision = 8 } = {}) =>
  marker(code, [precision, ...u16(height), ...u16(width), 3, 1, sampling, 0, 2, 0x11, 1, 3, 0x11, 1]);
const SOS = marker(0xda, [3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]);
/** Where the number of bits is too large for a word, a word without segments goes before it. */
const indexWords = (bits, segments, countBits) => {
  const word = bits * 2 ** countBits + segments;
  return [...(word >> 16 ? little((word >> 16) << countBits, 2) : []), ...little(word & 0xffff, 2)];
};
const index = (first, bits, segments, { version = 4, countBits = 6 } = {}) =>
  marker(0xe9, [
    ...[0x52, 0x46, 0x42, 0x47, 0, version, countBits],
    ...little(first, 4),
    ...bits.flatMap((count, i) => indexWords(count, segments[i], countBits)),
  ]);

const TABLES = [...dqt(0, 3), ...dqt(1, 5), ...[0x00, 0x10, 0x01, 0x11].flatMap((slot) => dht(slot))];
const file = (...parts) => Uint8Array.from([0xff, 0xd8, ...parts.flat(), 0xff, 0xd9]);

/** 130 x 20 pixels in 4:4:4: three rows of 17 MCUs, nine segments each. */
const FILLER = new Array(40).fill(7); // parse believes no file that has too few bytes for its size
const ROWS = [
  [1, 2, ...FILLER, 3, 0xff, 0xd0],
  [0xff, 0x00, ...FILLER, 5, 0xff, 0xd1],
  [6, ...FILLER],
];
const STARTS = [0, 8 * 45, 8 * 90];
/** The bits from one entry to the next, two of them in each row. */
const BITS = [13, 347, 8, 352, 4, 300];
/** The segments of these entries: two, and the rest of the row. */
const SEGMENTS = [2, 7, 2, 7, 1, 8];

const positions = ({ entries }) => [...entries].filter((_, i) => i % 2 === 0).slice(0, -1);
const firstSegments = ({ entries }) => [...entries].filter((_, i) => i % 2 === 1);
const whole = ({ head = [], frame = sof(130, 20), interval = 17 } = {}) =>
  file(TABLES, frame, marker(0xdd, u16(interval)), head, SOS, ...ROWS);

// ----- what is read

test("a file is taken apart, rows found by their restart markers", () => {
  const read = parse(whole());
  const { layout } = read;
  assert.deepEqual(
    [layout.width, layout.height, layout.subsampling, layout.mcusPerRow, layout.rows, layout.segmentsPerRow],
    [130, 20, "444", 17, 3, 9],
  );
  assert.deepEqual([...read.stream], ROWS.flat());
  assert.deepEqual(positions(read), STARTS);
  assert.deepEqual(firstSegments(read), [0, 9, 18, 27]);
  assert.deepEqual([read.quantisers[0], read.quantisers[64], read.quantisers[191]], [3, 5, 5]);
  assert.equal(read.huffman.length, 4);
});

test("4:2:0 has larger MCUs", () => {
  const read = parse(whole({ frame: sof(272, 40, { sampling: 0x22 }) }));
  assert.deepEqual([read.layout.subsampling, read.layout.mcusPerRow, read.layout.rows], ["420", 17, 3]);
  assert.equal(read.layout.segmentsPerRow, 17);
});

test("4:2:2 has wider MCUs", () => {
  const read = parse(whole({ frame: sof(272, 20, { sampling: 0x21 }) }));
  assert.deepEqual([read.layout.subsampling, read.layout.mcusPerRow, read.layout.rows], ["422", 17, 3]);
  assert.equal(read.layout.segmentsPerRow, 9);
});

test("gray has one component, one quantiser and two Huffman tables", () => {
  const frame = marker(0xc0, [8, 0, 20, 0, 130, 1, 1, 0x11, 0]);
  const tables = [...dqt(0, 3), ...dht(0x00), ...dht(0x10)];
  const scan = marker(0xda, [1, 1, 0x00, 0, 63, 0]);
  const read = parse(file(tables, frame, marker(0xdd, u16(17)), scan, ...ROWS));
  assert.deepEqual([read.layout.subsampling, read.layout.mcusPerRow, read.layout.rows], ["gray", 17, 3]);
  assert.equal(read.layout.segmentsPerRow, 3);
  assert.deepEqual([read.quantisers.length, read.huffman.length], [64, 2]);
});

test("a window into a larger buffer is read in place", () => {
  const plain = whole();
  const padded = new Uint8Array(plain.length + 20);
  padded.set(plain, 7);
  const read = parse(padded.subarray(7, 7 + plain.length));
  assert.deepEqual([...read.stream], ROWS.flat());
  assert.equal(read.stream.buffer, padded.buffer);
});

test("the index says where entries begin, over several markers", () => {
  const head = [
    ...index(2, BITS.slice(2), SEGMENTS.slice(2)),
    ...index(0, BITS.slice(0, 2), SEGMENTS.slice(0, 2)),
  ];
  const read = parse(whole({ head }));
  assert.deepEqual(positions(read), [0, 13, 360, 368, 720, 724]);
  assert.deepEqual(firstSegments(read), [0, 2, 9, 11, 18, 19, 27]);
});

test("numbers too large for a word of the index take two", () => {
  const read = parse(whole({ head: index(0, BITS, SEGMENTS, { countBits: 10 }) }));
  assert.deepEqual(positions(read), [0, 13, 360, 368, 720, 724]);
  assert.deepEqual(firstSegments(read), [0, 2, 9, 11, 18, 19, 27]);
});

test("an index that does not fit gives way to the restart markers", () => {
  const wrong = {
    "too few rows": index(0, BITS.slice(0, 4), SEGMENTS.slice(0, 4)),
    "too many rows": index(0, [...BITS, 4], [...SEGMENTS, 9]),
    "a row too long": index(0, BITS, [3, ...SEGMENTS.slice(1)]),
    "an entry over two rows": index(0, BITS, [2, 8, 1, ...SEGMENTS.slice(3)]),
    "a row without an end": index(0, BITS.slice(0, 5), SEGMENTS.slice(0, 5)),
    "another version": index(0, BITS, SEGMENTS, { version: 3 }),
    "counts of no bits": index(0, BITS, SEGMENTS, { countBits: 0 }),
    "points outside": index(0, [...BITS.slice(0, 5), 65535], SEGMENTS),
    "rows within bytes": index(0, [13, 346, 9, 352, 4, 300], SEGMENTS),
    "first marker missing": index(1, BITS, SEGMENTS),
    "a part cut off": index(0, BITS.slice(0, 4), SEGMENTS),
    "half a word": marker(0xe9, [...index(0, BITS, SEGMENTS).slice(4), 0]),
    "cut off": marker(0xe9, [0x52, 0x46, 0x42, 0x47, 0, 4, 6]),
    "another's marker": marker(
      0xe9,
      [..."ICC_PROFILE and so on"].map((c) => c.charCodeAt(0)),
    ),
  };
  for (const [what, head] of Object.entries(wrong)) {
    assert.deepEqual(positions(parse(whole({ head }))), STARTS, what);
  }
});

// ----- what is refused

test("files for other decoders are foreign", () => {
  const foreign = {
    progressive: whole({ frame: sof(130, 20, { code: 0xc2 }) }),
    "4:4:0": whole({ frame: sof(130, 20, { sampling: 0x12 }) }),
    "12 bits": whole({ frame: sof(130, 20, { precision: 12 }) }),
    "a scan of three in gray": whole({ frame: marker(0xc0, [8, 0, 20, 0, 130, 1, 1, 0x11, 0]) }),
    "another restart interval": whole({ interval: 16 }),
    "16-bit quantisers": whole({ head: marker(0xdb, [0x10, ...new Array(128).fill(1)]) }),
    "several scans": file(TABLES, sof(8, 8), marker(0xda, [1, 1, 0, 0, 63, 0]), [1]),
  };
  for (const [what, bytes] of Object.entries(foreign)) {
    assert.throws(() => parse(bytes), ForeignJpegError, what);
  }
});

test("broken files are corrupt", () => {
  const corrupt = {
    nothing: new Uint8Array(0),
    "a PNG": Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10),
    "no frame header": file(TABLES, SOS, [1]),
    "a size of 0": whole({ frame: sof(0, 20) }),
    "no tables": file(sof(8, 8), SOS, [1]),
    "no image data": file(TABLES, sof(8, 8), SOS),
    "never a scan": file(TABLES, sof(8, 8)),
    "a size for which the bytes are too few": whole({ frame: sof(130, 65535) }),
    "a frame header of the wrong length": whole({ frame: marker(0xc0, [8, 0, 20, 0, 130, 2, 1, 0x11, 0]) }),
    "a restart marker too few": file(TABLES, sof(130, 20), marker(0xdd, u16(17)), SOS, ROWS[0], ROWS[2]),
    "too many codes": whole({ head: dht(0x00, [0, 1, 2], [3, ...new Array(15).fill(0)]) }),
    "a table cut off": whole({ head: marker(0xc4, [0, ...COUNTS, 1]) }),
    "a quantiser cut off": whole({ head: marker(0xdb, [0, 1, 2]) }),
    "a marker without a length": Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 0, 1, 0, 0),
    "a marker too long": Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 0xff, 0xff, 0, 0),
    "only fill bytes": new Uint8Array(5000).fill(0xff).fill(0xd8, 1, 2),
  };
  for (const [what, bytes] of Object.entries(corrupt)) {
    assert.throws(() => parse(bytes), CorruptJpegError, what);
  }
});

test("whatever the bytes, parsing ends with a file in bounds or with a JpegError", () => {
  const good = whole({ head: index(0, BITS, SEGMENTS) });
  let random = 12345;
  const next = (below) => {
    random = (Math.imul(random, 1103515245) + 12345) >>> 0;
    return (random >>> 8) % below;
  };
  let read = 0;
  for (let round = 0; round < 20_000; round++) {
    const bytes = good.slice(0, next(8) ? good.length : next(good.length));
    for (let change = next(4); change >= 0 && bytes.length > 0; change--) {
      bytes[next(bytes.length)] = next(256);
    }
    try {
      const result = parse(bytes);
      read += 1;
      const { rows, segmentsPerRow } = result.layout;
      const first = firstSegments(result);
      assert.equal(first.at(-1), rows * segmentsPerRow);
      assert.ok(first.every((segment, i) => i === 0 || segment > first[i - 1]));
      assert.equal(first.filter((segment) => segment % segmentsPerRow === 0).length, rows + 1);
      assert.ok(positions(result).every((position) => position <= (result.stream.length + 2) * 8));
      assert.ok(decodingTables(result.huffman).words.length >= 4096);
    } catch (error) {
      if (!(error instanceof JpegError)) {
        throw error;
      }
    }
  }
  assert.ok(read > 1000, `${read} of the changed files still read`);
});

// ----- the decoding tables

/** What huffman_decode.wgsl finds for the next 16 bits. */
function wordFor({ words, ofFrame }, table, window) {
  return words[table * 1024 + (window >>> 6)] || words[ofFrame[table] + window];
}

/** Its parts: length of the code, of the code and the level, of these and the end of the block; size of the level, zeros before it,
 * whether the block ends, whether there is a coefficient. */
const parts = (word) => [
  (word >>> 10) & 31,
  word & 31,
  (word >>> 5) & 31,
  (word >>> 15) & 15,
  word >>> 28,
  (word >>> 19) & 1,
  (word >>> 20) & 1,
];

/** Those of a coefficient, with the end of the block, whose code in the test below is a zero, where that follows within 10 bits. */
function coefficient(length, size, zeros, window) {
  const taken = length + size;
  const follows = taken < 10 && !((window >> (15 - taken)) & 1) ? 1 : 0;
  return [length, taken, taken + follows, size, zeros, follows, 1];
}

test("a decoding table gives every code its meaning, short or long", () => {
  // One code of each length, all of them ones and then a zero.
  const counts = new Uint8Array(16).fill(1);
  const symbols = Uint8Array.from([
    0x00,
    0xf0,
    ...Array.from({ length: 14 }, (_, i) => (i << 4) | (i % 10) | 1),
  ]);
  const tables = decodingTables([0, 1, 2, 3].map(() => ({ counts, symbols })));
  assert.equal(tables.words.length, 4096 + 4 * 64, "the six longest codes begin with the same 10 bits");
  for (let length = 1; length <= 16; length++) {
    const code = 0xffff & ~((1 << (17 - length)) - 1);
    const spare = (1 << (16 - length)) - 1;
    const symbol = symbols[length - 1];
    const size = symbol & 15;
    const withoutLevel = [length, length, length, 0, ...(symbol === 0xf0 ? [15, 0, 0] : [0, 1, 0])];
    for (const window of [code, code | spare]) {
      for (const table of [1, 3]) {
        assert.deepEqual(
          parts(wordFor(tables, table, window)),
          size ? coefficient(length, size, symbol >> 4, window) : withoutLevel,
          `AC ${length}`,
        );
      }
      const dcSize = Math.min(symbol, 15);
      assert.deepEqual(
        parts(wordFor(tables, 2, window)),
        coefficient(length, dcSize, 0, window),
        `DC ${length}`,
      );
    }
  }
  assert.deepEqual(
    parts(wordFor(tables, 1, 0xffff)),
    [16, 16, 16, 0, 0, 1, 0],
    "no code is all ones: the end of the block",
  );
  assert.deepEqual(parts(wordFor(tables, 0, 0xffff)), [16, 16, 16, 0, 0, 0, 1]);
});

test("a table of few codes sends everything else to the end of the block", () => {
  const table = { counts: Uint8Array.of(0, 1, ...new Array(14).fill(0)), symbols: Uint8Array.of(0x11) };
  const tables = decodingTables([table, table]);
  assert.equal(tables.words.length, 4096);
  assert.deepEqual(parts(wordFor(tables, 1, 0x3fff)), [2, 3, 3, 1, 1, 0, 1]);
  assert.deepEqual(parts(wordFor(tables, 1, 0x4000)), [16, 16, 16, 0, 0, 1, 0]);
  assert.deepEqual(parts(wordFor(tables, 1, 0xffff)), [16, 16, 16, 0, 0, 1, 0]);
});
