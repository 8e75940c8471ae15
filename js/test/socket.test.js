// A websocket in a worker, with workers and websockets that are not there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openSocket } from "../src/socket";

class Worker {
  static made = [];
  posted = [];
  ended = false;
  constructor() {
    Worker.made.push(this);
  }
  postMessage(data, moved = []) {
    this.posted.push([data, moved]);
  }
  terminate() {
    this.ended = true;
  }
}

class Socket {
  static made = [];
  sent = [];
  constructor(url) {
    this.url = url;
    Socket.made.push(this);
  }
  send(text) {
    this.sent.push(text);
  }
}

globalThis.CloseEvent ??= class extends Event {
  constructor(type, { code, reason }) {
    super(type);
    Object.assign(this, { code, reason });
  }
};

Object.assign(globalThis, { Worker, WebSocket: Socket });

let told = [];

function open() {
  const socket = openSocket("ws://a/");
  socket.onopen = () => told.push("open");
  socket.onmessage = ({ data }) => told.push(data);
  socket.onclose = ({ code, reason }) => told.push([code, reason]);
  return socket;
}

test("text and files go through the worker, and files back to it", () => {
  const socket = open();
  const [worker] = Worker.made;
  const file = new ArrayBuffer(8);
  for (const data of [{ open: true }, "hello", file]) {
    worker.onmessage({ data });
  }
  socket.send("token");
  socket.release(file);
  assert.deepEqual(told, ["open", "hello", file]);
  assert.deepEqual(worker.posted, [
    [{ url: "ws://a/" }, []],
    ["token", []],
    [file, [file]],
  ]);
  socket.close();
  assert.deepEqual([worker.posted.at(-1), worker.ended], [[null, []], false], "it says goodbye first");
  worker.onmessage({ data: { code: 1000, reason: "" } });
  assert.deepEqual([told.at(-1), worker.ended, Socket.made.length], [[1000, ""], true, 0]);
});

// Last: workers are not tried again in a page.
test("where a policy forbids workers once one is started, the websocket is opened on the page", () => {
  told = [];
  const socket = open();
  open().close();
  const [worker, other] = Worker.made.slice(-2);
  other.onerror();
  assert.equal(Socket.made.length, 0, "what was closed before is not opened");
  worker.onerror();
  const [here] = Socket.made;
  assert.deepEqual([here.url, here.binaryType, worker.ended], ["ws://a/", "arraybuffer", true]);
  here.onopen({});
  here.onmessage({ data: "hello" });
  here.onclose({ code: 1006, reason: "gone" });
  socket.send("token");
  socket.release(new ArrayBuffer(8));
  assert.deepEqual([told, here.sent], [["open", "hello", [1006, "gone"]], ["token"]]);
  open();
  assert.deepEqual([Worker.made.length, Socket.made.length], [3, 2]);
});
