import assert from "node:assert/strict";
import { test } from "node:test";
import { bound, Compiled } from "../src/decoders/stages";

function held() {
  const made = [];
  const finish = [];
  const compiled = new Compiled((kind) => {
    made.push(kind);
    return new Promise((resolve) => finish.push(() => resolve(`pipelines for ${kind}`)));
  });
  return { compiled, made, finish };
}

test("what a file needs is compiled once, and is there when that is done", async () => {
  const { compiled, made, finish } = held();
  assert.equal(compiled.get("420"), null);
  assert.equal(compiled.get("420"), null);
  assert.deepEqual(made, ["420"]);
  finish[0]();
  assert.equal(await compiled.prepare("420"), "pipelines for 420");
  assert.equal(compiled.get("420"), "pipelines for 420");
  assert.deepEqual(made, ["420"]);
});

test("who prepares what is being compiled waits for it too", async () => {
  const { compiled, finish } = held();
  compiled.get("420");
  let ready = false;
  const waiting = compiled.prepare("420").then(() => {
    ready = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(ready, false);
  finish[0]();
  await waiting;
});

test("a stage that is refused is told to who prepares, and not tried again", async () => {
  let tries = 0;
  const compiled = new Compiled(async () => {
    tries += 1;
    throw new Error("refused");
  });
  await assert.rejects(compiled.prepare("444"), /refused/);
  assert.equal(compiled.get("444"), null);
  assert.equal(tries, 1);
});

test("the bar is no binding", () => {
  assert.deepEqual(bound(["frame", "|", "picture"]), ["frame", "picture"]);
});
