import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation } from "../src/conversation";

const FACTS = {
  dpr: 2,
  capabilities: { webgpu: true, secureContext: true },
  host: "a test",
  frontend: "0.0.0",
};

test("hello is number 0 of its epoch, and the rest counts up", () => {
  const sent = [];
  const talk = new Conversation((message) => sent.push(message), "me");
  talk.hello(FACTS);
  talk.send({ type: "visibility", visible: true });
  talk.send({ type: "visibility", visible: false });
  talk.hello(FACTS);
  talk.send({ type: "visibility", visible: true });
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

test("nothing is said before hello or after goodbye, until the next hello", () => {
  const sent = [];
  const talk = new Conversation((message) => sent.push(message.type));
  talk.send({ type: "visibility", visible: true });
  talk.hello(FACTS);
  talk.bye();
  talk.bye();
  talk.send({ type: "visibility", visible: true });
  talk.hello(FACTS);
  assert.deepEqual(sent, ["hello", "bye", "hello"]);
});

test("a closed comm is no error", () => {
  const talk = new Conversation(() => {
    throw new Error("comm closed");
  });
  talk.hello(FACTS);
  talk.bye();
});

test("each view has a name of its own", () => {
  const names = new Set(Array.from({ length: 100 }, () => new Conversation(() => {}).view));
  assert.equal(names.size, 100);
  assert.match([...names][0], /^[0-9a-f]{32}$/);
});
