import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CorruptPngError,
  distanceTable,
  ForeignPngError,
  literalTable,
  PngError,
  parse,
} from "../src/decoders/png-file";

// ----- a small PNG writer: the codes of a block, and an index, around rows that nobody decodes

const u32 = (value) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255);
const chunk = (name, data) => [...u32(data.length), ...Buffer.from(name), ...data, 0, 0, 0, 0];
const low = (value, count) => Array.from({ length: count }, (_, i) => (value >> i) & 1);

/** Literals of 8 or 9 bits, and two distances; the codes' own lengths are 8 (0), 1 (10) and 9 (11). */
const HEAD = [
  ...[1, 0, 1],
  ...low(286 - 257, 5),
  ...low(1, 5),
  ...low(14, 4),
  ...[16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1].flatMap((symbol) =>
    low({ 8: 1, 1: 2, 9: 2 }[symbol] ?? 0, 3),
  ),
  ...Array.from({ length: 286 }, (_, symbol) => (symbol < 226 ? [0] : [1, 1])).flat(),
  ...[1, 0],
  ...[1, 0],
];
const START = 16 + HEAD.length;

function streamOf(bits, rest = 40) {
  const bytes = new Array(Math.ceil(bits.length / 8)).fill(0);
  bits.forEach((bit, i) => {
    bytes[i >> 3] |= bit << (i & 7);
  });
  return [0x78, 1, ...bytes, ...new Array(rest).fill(0x55)];
}

const ihdr = ({ width = 3, height = 3, depth = 8, colour = 2, interlacing = 0 } = {}) =>
  chunk("IHDR", [...u32(width), ...u32(height), depth, colour, 0, 0, interlacing]);
const leb = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...leb(value >> 7)]);
/** Signs are folded in. */
const folded = (value) => leb(value < 0 ? -2 * value - 1 : 2 * value);
/** Steps from part to part, less those of the row above. */
const STEPS = [folded(START), folded(90 - START), folded(80 - 90)];
const index = (steps = STEPS, { version = 2, flags = 1, cut = 0 } = {}) =>
  chunk("rfIX", [version, flags, 32, ...leb(cut), ...steps.flat()]);
const file = ({ header = ihdr(), before = index(), stream = streamOf(HEAD), after = [] } = {}) =>
  Uint8Array.from([
    ...[0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a],
    ...header,
    ...before,
    ...chunk("IDAT", stream),
    ...after,
    ...chunk("IEND", []),
  ]);

test("a file is taken apart", () => {
  const read = parse(file());
  assert.deepEqual([read.width, read.height, read.channels, read.palette], [3, 3, 3, null]);
  assert.equal(read.cut, 0);
  assert.deepEqual([...read.partBits], [START, START + 90, START + 170]);
  assert.equal(read.reachesAbove, true);
  assert.equal(read.literals.length, 286);
  assert.deepEqual([...read.distances], [1, 1]);
});

test("rows may be cut", () => {
  const steps = [START, 7, 90 - START, 20 - 7, 80 - 90, 0].map(folded);
  const { cut, partBits } = parse(file({ before: index(steps, { cut: 5 }) }));
  assert.equal(cut, 5);
  const expected = [START, 7, 90, 20, 80, 20];
  assert.deepEqual(
    [...partBits],
    expected.map((_, i) => expected.slice(0, i + 1).reduce((sum, step) => sum + step)),
  );
  for (const impossible of [3, 6, 13]) {
    assert.throws(() => parse(file({ before: index(steps, { cut: impossible }) })), CorruptPngError);
  }
});

test("a palette is opaque, and black beyond its colours", () => {
  const plte = chunk("PLTE", [1, 2, 3, 4, 5, 6]);
  const { palette, channels } = parse(file({ header: ihdr({ colour: 3 }), before: [...plte, ...index()] }));
  assert.equal(channels, 1);
  assert.deepEqual([...palette.subarray(0, 3)], [0xff030201, 0xff060504, 0xff000000]);
});

test("the tables tell bytes, lengths and distances, whatever bits follow a code", () => {
  const read = parse(file());
  const literals = literalTable(read);
  assert.equal(literals.length, 512);
  const code = (value, length) =>
    Number.parseInt(value.toString(2).padStart(length, "0").split("").reverse().join(""), 2);
  for (const after of [0, 256]) {
    assert.equal(literals[code(65, 8) | after], (65 << 8) | 8);
  }
  // Codes of 9 bits go on where those of 8 end.
  const long = (symbol) => literals[code(226 * 2 + symbol - 226, 9)];
  assert.equal(long(255), (255 << 8) | 9);
  assert.equal(long(257), (3 << 8) | 0x80 | 9);
  assert.equal(long(265), (11 << 8) | 0x80 | (1 << 4) | 9);
  assert.equal(long(284), (227 << 8) | 0x80 | (5 << 4) | 9);
  assert.equal(long(285), (258 << 8) | 0x80 | 9);
  assert.deepEqual([...distanceTable(read)], [(1 << 8) | 1, (2 << 8) | 1]);
});

test("what others make is foreign", () => {
  for (const made of [
    file({ before: [] }),
    file({ header: ihdr({ depth: 16 }) }),
    file({ header: ihdr({ colour: 4 }) }),
    file({ header: ihdr({ interlacing: 1 }) }),
    file({ before: [...chunk("tRNS", [0, 0]), ...index()] }),
    file({ before: index(undefined, { version: 9 }) }),
    file({ after: chunk("IDAT", [1, 2, 3]) }),
    file({ stream: streamOf([1, 1, 0, ...HEAD.slice(3)]) }),
  ]) {
    assert.throws(() => parse(made), ForeignPngError);
  }
});

test("what is broken is said to be", () => {
  for (const made of [
    Uint8Array.of(),
    Uint8Array.of(0xff, 0xd8),
    file({ header: ihdr({ width: 0 }) }),
    file({ header: ihdr({ height: 2 ** 31 }) }),
    file({ header: ihdr({ colour: 3 }) }),
    file({ before: index([[2], [2], [2]]) }),
    file({ before: index(STEPS.slice(0, 2)) }),
    file({ before: index([...STEPS, [1]]) }),
    file({ before: index([...STEPS.slice(0, 2), [255, 255, 255, 255, 255, 1]]) }),
    file({ before: index([...STEPS.slice(0, 2), [255]]) }),
    file({ before: index([STEPS[0], folded(60_000), folded(0)]) }),
    file({ before: index([STEPS[0], folded(-START - 1), folded(0)]) }),
    file({ stream: [1, 2, 3] }),
    file({ stream: streamOf(HEAD.slice(0, 200), 0) }),
  ]) {
    assert.throws(() => parse(made), CorruptPngError);
  }
});

test("no bytes do harm", () => {
  const good = file();
  for (let at = 0; at < good.length; at++) {
    for (const value of [0, 1, 127, 128, 255]) {
      const bytes = good.slice();
      bytes[at] = value;
      try {
        const read = parse(bytes);
        literalTable(read);
        distanceTable(read);
        assert.equal(read.partBits.length, read.height * (read.cut ? 2 : 1));
      } catch (error) {
        assert.ok(error instanceof PngError, `byte ${at} = ${value}: ${error}`);
      }
    }
    assert.throws(() => parse(good.subarray(0, at)), PngError);
  }
});
