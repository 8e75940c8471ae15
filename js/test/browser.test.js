import assert from "node:assert/strict";
import { test } from "node:test";
import { BrowserDecoder } from "../src/decoders/browser";

const FRAME = { codec: "jpeg", width: 10, height: 10, bytes: new Uint8Array(4) };

/** A race of ways that take so many milliseconds, on a clock that only they move. */
function race(speeds) {
  let clock = 0;
  const calls = [];
  const closed = [];
  const ways = Object.entries(speeds).map(([name, ms]) => ({
    name,
    async decode(frame) {
      calls.push(name);
      const cost = typeof ms === "function" ? ms(frame) : ms;
      clock += cost;
      return {
        name,
        width: frame.realWidth ?? frame.width,
        height: frame.height,
        close: () => closed.push(name),
      };
    },
  }));
  const finished = [];
  const decoder = new BrowserDecoder(
    ways,
    (picture) => finished.push(picture.name),
    () => clock,
  );
  return { decoder, calls, closed, finished };
}

const refuse = () => {
  throw new Error("refused");
};

async function decodeAll(decoder, count, frame = FRAME) {
  const names = [];
  for (let i = 0; i < count; i++) {
    names.push((await decoder.decode(frame)).name);
  }
  return names;
}

test("each way decodes three frames in turn, then the fastest decodes all", async () => {
  const { decoder, finished } = race({ a: 5, b: 3, c: 9 });
  assert.deepEqual(await decodeAll(decoder, 8), ["a", "b", "c", "a", "b", "c", "a", "b"]);
  assert.equal(decoder.method, "");
  await decoder.decode(FRAME);
  assert.equal(decoder.method, "b");
  assert.deepEqual(await decodeAll(decoder, 3), ["b", "b", "b"]);
  assert.equal(finished.length, 9, "only pictures of the race are finished for the clock's sake");
});

test("the best of a way's times counts, by pixel", async () => {
  let first = true;
  const slowStart = () => {
    const ms = first ? 100 : 2;
    first = false;
    return ms;
  };
  const { decoder } = race({ a: 5, b: slowStart });
  await decodeAll(decoder, 6);
  assert.equal(decoder.method, "b");

  const bySize = race({ a: (frame) => frame.width, b: (frame) => frame.width / 2 });
  for (const width of [10, 1000, 10, 1000, 10, 1000]) {
    await bySize.decoder.decode({ ...FRAME, width });
  }
  assert.equal(bySize.decoder.method, "b");
});

test("a way that fails where another does not is out", async () => {
  const { decoder, calls } = race({ a: 5, b: refuse, c: 3 });
  assert.deepEqual(await decodeAll(decoder, 6), ["a", "c", "a", "c", "a", "c"]);
  assert.equal(decoder.method, "c");
  assert.equal(calls.filter((name) => name === "b").length, 1);
});

test("a file that all refuse is an error, and the race goes on", async () => {
  const onlyGood = (ms) => (frame) => (frame.broken ? refuse() : ms);
  const { decoder } = race({ a: onlyGood(5), b: onlyGood(3) });
  await decoder.decode(FRAME);
  await assert.rejects(decoder.decode({ ...FRAME, broken: true }), /refused/);
  assert.deepEqual(await decodeAll(decoder, 5), ["b", "a", "b", "a", "b"]);
  assert.equal(decoder.method, "b");
  await assert.rejects(decoder.decode({ ...FRAME, broken: true }), /refused/);
  assert.deepEqual(await decodeAll(decoder, 2), ["b", "b"]);
});

test("the winner's later failures are made up for by the others", async () => {
  const { decoder } = race({ a: 5, b: (frame) => (frame.odd ? refuse() : 3) });
  await decodeAll(decoder, 6);
  assert.equal((await decoder.decode({ ...FRAME, odd: true })).name, "a");
  assert.equal(decoder.method, "a");
});

test("a picture of another size than its message says is closed and refused", async () => {
  const { decoder, closed } = race({ a: 5, b: 3 });
  await assert.rejects(decoder.decode({ ...FRAME, realWidth: 11 }), /the file is 11 x 10 pixels/);
  assert.deepEqual(closed, ["a", "b"]);
});

test("PNG files are not part of the race", async () => {
  const { decoder } = race({ a: 5, b: 3 });
  assert.deepEqual(await decodeAll(decoder, 8, { ...FRAME, codec: "png" }), Array(8).fill("a"));
  assert.equal(decoder.method, "");
  await decoder.decode(FRAME);
  await decoder.decode(FRAME);
  assert.equal((await decoder.decode({ ...FRAME, codec: "png" })).name, "b", "by what is known so far");
});

test("a browser with one way has nothing to race", async () => {
  const { decoder, finished } = race({ a: 5 });
  assert.equal(decoder.method, "a");
  await decoder.decode(FRAME);
  assert.deepEqual(finished, []);
});
