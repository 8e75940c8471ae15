import assert from "node:assert/strict";
import { test } from "node:test";
import { TwoFingers } from "../src/touch";

const at = (x, y) => ({ x, y });

function gesture(...positions) {
  const events = [];
  const fingers = new TwoFingers(positions[0], (event) => events.push(event));
  for (const pair of positions.slice(1)) {
    fingers.move(pair);
  }
  fingers.end();
  return events;
}

test("fingers that part turn the wheel, so that twice the distance is twice the size", () => {
  const events = gesture([at(90, 50), at(110, 50)], [at(80, 50), at(115, 50)], [at(80, 50), at(120, 50)]);
  assert.deepEqual([...new Set(events.map(({ type }) => type))], ["wheel"]);
  assert.ok(
    Math.abs(events.reduce((sum, { dy }) => sum + dy, 0) - -1000) < 1e-9,
    "pygfx: 2 ** (-0.001 * dy)",
  );
  assert.deepEqual([events.at(-1).x, events.at(-1).y], [100, 50], "between the fingers");
});

test("fingers that move together drag with the right button", () => {
  const events = gesture(
    [at(0, 0), at(40, 0)],
    [at(0, 5), at(40, 5)],
    [at(1, 20), at(41, 20)],
    [at(2, 60), at(42, 60)],
  );
  assert.deepEqual(
    events.map(({ type, x, y, button, buttons }) => [type, x, y, button, buttons]),
    [
      ["pointer_down", 20, 0, 2, [2]],
      ["pointer_move", 21, 20, 2, [2]],
      ["pointer_move", 22, 60, 2, [2]],
      ["pointer_up", 22, 60, 2, []],
    ],
  );
});

test("fingers that hardly move do nothing, and those that meet nothing impossible", () => {
  assert.deepEqual(gesture([at(0, 0), at(40, 0)], [at(2, 3), at(41, 2)]), []);
  const events = gesture([at(0, 0), at(40, 0)], [at(20, 0), at(20, 0)]);
  assert.ok(events.every(({ dy }) => Number.isFinite(dy)));
});
