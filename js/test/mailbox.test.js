import assert from "node:assert/strict";
import { test } from "node:test";
import { Mailbox } from "../src/mailbox";

test("the newest frame wins, in whatever order they come", () => {
  const box = new Mailbox();
  assert.deepEqual(box.put({ id: 1 }), []);
  assert.deepEqual(box.put({ id: 3 }), [{ id: 1 }]);
  assert.deepEqual(box.put({ id: 2 }), [{ id: 2 }], "late: it gives way itself");
  assert.deepEqual(box.take(), { id: 3 });
  assert.equal(box.take(), null);
  assert.ok(box.isEmpty);
});

test("what was taken is never replaced by something older", () => {
  const box = new Mailbox();
  box.put({ id: 5 });
  box.take();
  assert.deepEqual(box.put({ id: 4 }), [{ id: 4 }]);
  assert.deepEqual(box.put({ id: 5 }), [{ id: 5 }], "the same frame twice");
  assert.ok(box.isEmpty);
  assert.deepEqual(box.put({ id: 6 }), []);
});

test("after a new hello the last frame may come again, but nothing older than what waits", () => {
  const box = new Mailbox();
  box.put({ id: 5 });
  box.take();
  box.reset();
  assert.deepEqual(box.put({ id: 5 }), []);
  box.reset();
  assert.deepEqual(box.put({ id: 4 }), [{ id: 4 }]);
  assert.deepEqual(box.put({ id: 5, again: true }), [{ id: 5 }]);
  assert.deepEqual(box.take(), { id: 5, again: true });
});

test("parts wait for each other, and go with the first whole frame after them", () => {
  const box = new Mailbox();
  box.put({ id: 1, part: null });
  assert.deepEqual(box.put({ id: 2, part: {} }), []);
  assert.deepEqual(box.put({ id: 3, part: {} }), []);
  assert.equal(box.take().id, 1);
  assert.equal(box.take().id, 2);
  box.put({ id: 4, part: {} });
  assert.deepEqual(
    box.put({ id: 5, part: null }).map(({ id }) => id),
    [3, 4],
  );
  assert.equal(box.take().id, 5);
  assert.ok(box.isEmpty);
});
