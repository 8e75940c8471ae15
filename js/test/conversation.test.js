import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation } from "../src/conversation";

const FACTS = {
  dpr: 2,
  capabilities: { webgpu: true, secureContext: true },
  host: "a test",
  frontend: "0.0.0",
};

const soon = () => new Promise((done) => setTimeout(done));

test("hello is number 0 of its epoch, and the rest counts up", async () => {
  const sent = [];
  const talk = new Conversation((content) => sent.push(content), "me");
  talk.hello(FACTS);
  talk.send({ type: "visibility", visible: true });
  await soon();
  talk.send({ type: "visibility", visible: false });
  talk.hello(FACTS);
  talk.send({ type: "visibility", visible: true });
  await soon();
  assert.deepEqual(
    sent.map(({ type, view, epoch, seq }) => [type, view, epoch, seq]),
    [
      ["hello", "me", 1, 0],
      ["visibility", "me", 1, 1],
      ["visibility", "me", 1, 2],
      ["hello", "me", 2, 0],
      ["visibility", "me", 2, 1],
    ],
  );
  assert.deepEqual(sent[0], { type: "hello", version: 1, ...FACTS, view: "me", epoch: 1, seq: 0 });
});

test("what is said within one task goes together, hello and goodbye go at once", async () => {
  const sent = [];
  const types = (content) => (Array.isArray(content) ? content.map(({ type }) => type) : content.type);
  const talk = new Conversation((content) => sent.push(types(content)));
  talk.hello(FACTS);
  assert.deepEqual(sent, ["hello"]);
  talk.send({ type: "visibility", visible: true });
  talk.send({ type: "road", reason: "" });
  await soon();
  talk.send({ type: "visibility", visible: false });
  await soon();
  assert.deepEqual(sent, ["hello", ["visibility", "road"], "visibility"]);
  talk.send({ type: "visibility", visible: true });
  talk.bye();
  assert.deepEqual(sent.slice(3), [["visibility", "bye"]]);
  await soon();
  assert.equal(sent.length, 4);
});

test("nothing is said before hello or after goodbye, until the next hello", () => {
  const sent = [];
  const talk = new Conversation((message) => sent.push(message.type));
  talk.send({ type: "visibility", visible: true });
  talk.hello(FACTS);
  talk.bye(false);
  talk.bye(false);
  talk.send({ type: "visibility", visible: true });
  talk.hello(FACTS);
  assert.deepEqual(sent, ["hello", "bye", "hello"]);
});

test("a closed comm is no error", () => {
  const talk = new Conversation(() => {
    throw new Error("comm closed");
  });
  talk.hello(FACTS);
  talk.bye(false);
});

test("each view has a name of its own", () => {
  const names = new Set(Array.from({ length: 100 }, () => new Conversation(() => {}).view));
  assert.equal(names.size, 100);
  assert.match([...names][0], /^[0-9a-f]{32}$/);
});
