import assert from "node:assert/strict";
import { test } from "node:test";
import { bufferBytes, parseKernelMessage } from "../src/protocol";

const FRAME = {
  type: "frame",
  id: 3,
  codec: "jpeg",
  width: 640,
  height: 480,
  fit: "exact",
  scale: 2,
  final: false,
  window: 4,
};

test("a frame is read, and what is optional has a default", () => {
  assert.deepEqual(parseKernelMessage(FRAME), { ...FRAME, view: null, part: null, alpha: null });
  const { fit, scale, final, window, ...least } = FRAME;
  assert.deepEqual(parseKernelMessage(least), {
    ...least,
    fit: "exact",
    scale: 1,
    final: false,
    window: null,
    view: null,
    part: null,
    alpha: null,
  });
  const part = { y: 400, rows: 80, base: 2, index: 0 };
  assert.deepEqual(parseKernelMessage({ ...FRAME, part }).part, part);
});

test("impossible frames are no frames", () => {
  const impossible = [
    { id: -1 },
    { id: 1.5 },
    { id: "3" },
    { codec: "gif" },
    { width: 0 },
    { width: 65536 },
    { height: Number.NaN },
    { height: Number.POSITIVE_INFINITY },
    { height: null },
    { part: 3 },
    { part: { y: 0, rows: 0, base: 2, index: 0 } },
    { part: { y: 401, rows: 80, base: 2, index: 0 } },
    { part: { y: 0, rows: 80, base: 2 } },
  ];
  for (const wrong of impossible) {
    assert.equal(parseKernelMessage({ ...FRAME, ...wrong }), null, JSON.stringify(wrong));
  }
  assert.equal(parseKernelMessage({ ...FRAME, window: 1e9 }).window, 64);
  assert.equal(parseKernelMessage({ ...FRAME, window: 0 }).window, null);
  assert.equal(parseKernelMessage({ ...FRAME, scale: 1e9 }).scale, 16);
  assert.equal(parseKernelMessage({ ...FRAME, scale: -1 }).scale, 1);
});

test("unknown messages are ignored", () => {
  for (const content of [
    null,
    undefined,
    7,
    "frame",
    [],
    {},
    { type: "later" },
    { type: "lead" },
    { type: "welcome" },
  ]) {
    assert.equal(parseKernelMessage(content), null);
  }
});

test("a buffer's window is honoured, without a copy", () => {
  const whole = new Uint8Array([0, 1, 2, 3, 4, 5]);
  for (const View of [DataView, Uint8Array]) {
    const bytes = bufferBytes(new View(whole.buffer, 2, 3));
    assert.deepEqual([...bytes], [2, 3, 4]);
    assert.equal(bytes.buffer, whole.buffer);
  }
  assert.equal(bufferBytes(whole.buffer).length, 6);
  assert.equal(bufferBytes("bytes"), null);
  assert.equal(bufferBytes(undefined), null);
});
