import assert from "node:assert/strict";
import { test } from "node:test";
import { ACK_DELAY_MS, AckBatcher } from "../src/acks";

/** A batcher with a clock that is moved by hand. */
function batcher(window) {
  const sent = [];
  const timers = new Map();
  let next = 1;
  const acks = new AckBatcher((ack) => sent.push(ack), {
    set(callback, ms) {
      assert.equal(ms, ACK_DELAY_MS);
      timers.set(next, callback);
      return next++;
    },
    clear: (timer) => timers.delete(timer),
  });
  acks.window = window;
  const tick = () => {
    for (const [timer, callback] of [...timers]) {
      timers.delete(timer);
      callback();
    }
  };
  return { acks, sent, tick, timers };
}

test("a small window is acknowledged frame by frame", () => {
  const { acks, sent, timers } = batcher(4);
  acks.lead(7, 990);
  acks.received(7, 1000.1234);
  acks.turned(16.6667, true);
  acks.shown(7, 2.71, 4);
  assert.deepEqual(sent, [
    {
      type: "ack",
      frame: 7,
      received: 1,
      shown: 1,
      dropped: 0,
      arrivals: [[7, 1000.12, 990]],
      waits: [2.71],
      turns: [16.67],
      decode_ms: null,
      present_ms: 4,
    },
  ]);
  assert.equal(timers.size, 0);
});

test("a quarter of a window goes at once, less than that after the delay", () => {
  const { acks, sent, tick, timers } = batcher(16);
  for (const id of [1, 2, 3]) {
    acks.received(0, 0);
    acks.shown(id, 0, id);
  }
  assert.equal(sent.length, 0);
  assert.equal(timers.size, 1, "one timer, from the first frame that waits");
  tick();
  assert.equal(sent.length, 1);
  assert.deepEqual([sent[0].frame, sent[0].shown, sent[0].present_ms], [3, 3, 2]);
  for (const id of [4, 5, 6, 7]) {
    acks.received(0, 0);
    acks.shown(id, 0, 1);
  }
  assert.equal(sent.length, 2);
  assert.equal(sent[1].frame, 7);
  tick();
  assert.equal(sent.length, 2, "the timer went with the acknowledgement");
});

test("an acknowledgement that waits goes with what else is sent, and none is made up", () => {
  const { acks, sent, tick } = batcher(16);
  acks.received(1, 0);
  acks.flush();
  assert.equal(sent.length, 0, "nothing was shown yet");
  acks.shown(1, 0, 1);
  acks.flush();
  acks.flush();
  assert.equal(sent.length, 1);
  tick();
  assert.equal(sent.length, 1);
});

test("superseded frames travel with the newer one, and count", () => {
  const { acks, sent, timers } = batcher(4);
  for (const id of [1, 2, 3]) {
    acks.received(0, 0);
    if (id < 3) {
      acks.superseded(id);
    }
  }
  assert.equal(sent.length, 0);
  assert.equal(timers.size, 0);
  acks.shown(3, 0, 1);
  assert.deepEqual([sent[0].frame, sent[0].received, sent[0].shown, sent[0].dropped], [3, 3, 1, 2]);
});

test("the highest id is acknowledged, though an older frame came late", () => {
  const { acks, sent } = batcher(3);
  acks.shown(5, 0, 1);
  acks.superseded(4);
  acks.shown(6, 0, 1);
  assert.equal(sent.at(-1).frame, 6);
});

test("a frame that cannot be shown is acknowledged all the same", () => {
  const { acks, sent } = batcher(2);
  acks.received(0, 0);
  acks.failed(9);
  assert.deepEqual([sent[0].frame, sent[0].shown, sent[0].dropped], [9, 0, 1]);
});

test("a decode time that comes late travels with the next, as a median", () => {
  const { acks, sent } = batcher(2);
  acks.shown(1, 0, 1);
  acks.decoded(3);
  acks.decoded(1);
  acks.decoded(2.004);
  acks.shown(2, 0, 1);
  acks.shown(3, 0, 1);
  assert.deepEqual(
    sent.map((ack) => ack.decode_ms),
    [null, 2, null],
  );
});

test("a new epoch forgets what was counted", () => {
  const { acks, sent, tick } = batcher(8);
  acks.received(0, 0);
  acks.shown(1, 0, 1);
  acks.reset();
  tick();
  assert.equal(sent.length, 0);
});

test("turns are told once, the latest of very many", () => {
  const { acks, sent } = batcher(2);
  for (let i = 0; i < 100; i++) acks.turned(i, i !== 98);
  acks.shown(1, 0, 1);
  acks.shown(2, 5, 1);
  assert.equal(sent[0].turns.length, 64);
  assert.deepEqual(sent[0].turns.slice(-3), [97, null, 99]);
  assert.deepEqual([sent[1].waits, sent[1].turns], [[5], []]);
});

test("arrivals are told once, the latest of very many", () => {
  const { acks, sent } = batcher(2);
  for (let id = 1; id <= 100; id++) {
    acks.received(id, 10 * id);
  }
  acks.shown(100, 0, 1);
  assert.equal(sent[0].arrivals.length, 64);
  assert.deepEqual(sent[0].arrivals.at(-1), [100, 1000, null]);
  acks.lead(100, 1005); // of another frame
  acks.received(101, 1010);
  acks.shown(101, 0, 1);
  assert.deepEqual(sent[1].arrivals, [[101, 1010, null]]);
});
