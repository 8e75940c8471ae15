import assert from "node:assert/strict";
import { test } from "node:test";
import { INTERVAL_MS, PAUSE_MS, Throttle } from "../src/throttle";

/** A throttle with a clock that is moved by hand. */
function throttle() {
  const sent = [];
  const timers = new Map();
  let now = 1000;
  let next = 1;
  const events = new Throttle((event) => sent.push(event), {
    now: () => now,
    set(callback, ms) {
      timers.set(next, [now + ms, callback]);
      return next++;
    },
    clear: (timer) => timers.delete(timer),
  });
  const wait = (ms) => {
    now += ms;
    for (const [timer, [when, callback]] of [...timers]) {
      if (when <= now) {
        timers.delete(timer);
        callback();
      }
    }
  };
  return { events, sent, wait };
}

const move = (x, buttons = [1]) => ({ type: "pointer_move", x, buttons, modifiers: [] });
const wheel = (dy, modifiers = []) => ({ type: "wheel", dx: 1, dy, buttons: [], modifiers });

test("the first move goes at once, and then the newest after an interval", () => {
  const { events, sent, wait } = throttle();
  events.take(move(1));
  assert.deepEqual(sent, [move(1)]);
  for (let x = 2; x <= 100; x++) {
    wait(INTERVAL_MS / 8);
    events.take(move(x));
  }
  assert.equal(sent.length, 1 + Math.floor(99 / 8));
  wait(INTERVAL_MS);
  assert.deepEqual(sent.at(-1), move(100));
  wait(PAUSE_MS);
  const count = sent.length;
  events.take(move(101));
  assert.equal(sent.length, count + 1);
});

test("of 60 moves a second 30 go", () => {
  const { events, sent, wait } = throttle();
  for (let frame = 0; frame < 60; frame++) {
    events.take(move(frame));
    for (let ms = 0; ms < 50; ms++) {
      wait(1 / 3);
    }
  }
  assert.ok(Math.abs(sent.length - 30) <= 1, `${sent.length}`);
});

test("whatever else happens comes after the moves before it, and waits for nothing", () => {
  const { events, sent, wait } = throttle();
  const up = { type: "pointer_up", x: 3, buttons: [], modifiers: [] };
  events.take(move(1));
  events.take(move(2));
  events.take(move(3));
  events.take(up);
  events.take(move(4, []));
  assert.deepEqual(sent, [move(1), move(3), up]);
  wait(INTERVAL_MS);
  assert.deepEqual(sent, [move(1), move(3), up, move(4, [])]);
  wait(INTERVAL_MS);
  assert.equal(sent.length, 4);
});

test("turns of the wheel are summed up, those with another key held apart", () => {
  const { events, sent, wait } = throttle();
  for (const dy of [1, 10, 100]) {
    events.take(wheel(dy));
  }
  events.take(wheel(5, ["Shift"]));
  wait(INTERVAL_MS);
  assert.deepEqual(sent, [wheel(1), { ...wheel(110), dx: 2 }, wheel(5, ["Shift"])]);
});
