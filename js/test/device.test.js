import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { acquireGpu } from "../src/device";

// ----- a browser's GPU, as far as it is asked here

class Failure {
  constructor(message) {
    this.message = message;
  }
}
globalThis.GPUOutOfMemoryError = class extends Failure {};
globalThis.GPUValidationError = class extends Failure {};

let devices = [];
let now = 1e6;

class Device extends EventTarget {
  lost = new Promise((lose) => {
    this.lose = (message) => lose({ message, reason: "unknown" });
  });
  fail(error) {
    this.dispatchEvent(Object.assign(new Event("uncapturederror"), { error }));
  }
}

beforeEach(() => {
  devices = [];
  now += 1e6;
  delete globalThis[Symbol.for("rfb_gpu.gpu.v1")];
  globalThis.performance.now = () => now;
  globalThis.window = globalThis;
  Object.defineProperty(globalThis, "navigator", {
    configurable: true,
    value: {
      gpu: {
        requestAdapter: async () => ({
          info: { vendor: "test", architecture: "", device: "", description: "" },
          limits: {},
          features: new Set(),
          requestDevice: async () => {
            devices.push(new Device());
            return devices.at(-1);
          },
        }),
      },
    },
  });
});

test("canvases share a device", async () => {
  const [one, other] = [await acquireGpu(false), await acquireGpu(false)];
  assert.equal(one, other);
  assert.equal(devices.length, 1);
});

test("after a lost device there is another, once a minute", async () => {
  const first = await acquireGpu(false);
  devices[0].lose("pulled out");
  const failure = await first.failed;
  assert.ok(failure.retry);
  assert.match(failure.reason, /lost: pulled out/);
  const second = await acquireGpu(false);
  assert.notEqual(second.device, first.device);
  now += 1000;
  devices[1].lose("pulled out");
  assert.ok(!(await second.failed).retry);
  await assert.rejects(acquireGpu(false), /lost: pulled out/);
});

test("lack of memory is like a lost device", async () => {
  const first = await acquireGpu(false);
  devices[0].fail(new GPUOutOfMemoryError("no room\nfor this"));
  const failure = await first.failed;
  assert.deepEqual({ ...failure }, { reason: "WebGPU error: no room", retry: true });
  const second = await acquireGpu(false);
  devices[1].fail(new GPUOutOfMemoryError("no room"));
  assert.ok(!(await second.failed).retry);
});

test("an error of our own making ends it", async () => {
  const first = await acquireGpu(false);
  devices[0].fail(new GPUValidationError("wrong"));
  assert.ok(!(await first.failed).retry);
  await assert.rejects(acquireGpu(false), /wrong/);
});
