import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { frameFile, parseKernelMessage } from "../src/protocol";
import { decodeMessage, OPEN_TIMEOUT_MS, RETRY_MS, Road, roadUrls } from "../src/road";

const OFFER = { port: 4711, token: "secret", proxy: false };
const PROXY = { ...OFFER, proxy: true };
const DIRECT = "ws://127.0.0.1:4711/";
const LAB = JSON.stringify({ appName: "JupyterLab", baseUrl: "/user/ada/" });

function place(url) {
  const { protocol, hostname, host } = new URL(url);
  return { protocol, hostname, host };
}

test("a page of this machine goes straight to the kernel, whatever its port and scheme", () => {
  for (const url of ["http://localhost:8888/lab", "https://127.0.0.1/", "http://[::1]:2718/"]) {
    assert.deepEqual(roadUrls(OFFER, place(url), null), [DIRECT], url);
  }
  const webview = { protocol: "vscode-webview:", hostname: "1a2b3c", host: "1a2b3c" };
  assert.deepEqual(roadUrls(PROXY, webview, null), [DIRECT]);
});

test("a page of another host goes through Jupyter's proxy or not at all, and never tries this machine", () => {
  const hub = place("https://hub.example.org/user/ada/lab");
  assert.deepEqual(roadUrls(PROXY, hub, LAB), ["wss://hub.example.org/user/ada/proxy/4711/"]);
  assert.deepEqual(roadUrls(OFFER, hub, LAB), []);
  assert.deepEqual(roadUrls(PROXY, hub, null), [], "no page of Jupyter's");
  const plain = place("http://gpu-box:8888/lab");
  assert.deepEqual(roadUrls(PROXY, plain, JSON.stringify({ baseUrl: "/" })), [
    "ws://gpu-box:8888/proxy/4711/",
  ]);
  assert.deepEqual(roadUrls(PROXY, place("https://localhost.example.org/"), null), []);
  assert.deepEqual(roadUrls(PROXY, { protocol: "about:", hostname: "", host: "" }, LAB), []);
});

test("at this end of a tunnel the proxy comes second", () => {
  assert.deepEqual(roadUrls(PROXY, place("http://localhost:8888/"), LAB), [
    DIRECT,
    "ws://localhost:8888/user/ada/proxy/4711/",
  ]);
});

test("a configuration of Jupyter's without a path of its own host leads nowhere", () => {
  const configs = [
    "",
    "{",
    "null",
    "{}",
    '{"baseUrl": 7}',
    '{"baseUrl": "//evil.example/"}',
    '{"baseUrl": "x/"}',
  ];
  for (const config of configs) {
    assert.deepEqual(roadUrls(PROXY, place("https://hub.example.org/"), config), [], config);
  }
});

function binary(header, file) {
  const json = new TextEncoder().encode(JSON.stringify(header));
  const data = new Uint8Array(4 + json.length + file.length);
  new DataView(data.buffer).setUint32(0, json.length, true);
  data.set(json, 4);
  data.set(file, 4 + json.length);
  return data.buffer;
}

test("a frame of the websocket is its header and its file, without a copy", () => {
  const data = binary({ type: "frame", id: 3, title: "Würfel" }, [9, 8, 7]);
  const { content, file } = decodeMessage(data);
  assert.deepEqual(content, { type: "frame", id: 3, title: "Würfel" });
  assert.deepEqual([...file], [9, 8, 7]);
  assert.equal(file.buffer, data);
  assert.deepEqual(decodeMessage('{"type":"closed"}'), { content: { type: "closed" }, file: null });
});

test("what is no message is none", () => {
  const beyond = new Uint8Array([200, 0, 0, 0, 0x7b, 0x7d]).buffer;
  const noJson = new Uint8Array([1, 0, 0, 0, 0x7b, 9]).buffer;
  for (const data of ["{", new ArrayBuffer(0), new ArrayBuffer(3), beyond, noJson, 7, null, undefined]) {
    assert.equal(decodeMessage(data), null);
  }
});

test("a frame of the comm has its file in a buffer or as base64 text", () => {
  const buffer = new DataView(new Uint8Array([1, 2, 3]).buffer);
  const builtIn = Uint8Array.fromBase64;
  for (const way of [builtIn, undefined]) {
    Uint8Array.fromBase64 = way;
    assert.deepEqual([...frameFile({ data: "/9j/" }, [])], [255, 216, 255]);
    assert.equal(frameFile({ data: "not base64!" }, []), null);
    if (builtIn === undefined) break;
  }
  Uint8Array.fromBase64 = builtIn;
  assert.deepEqual([...frameFile({}, [buffer])], [1, 2, 3]);
  assert.equal(frameFile({}, []), null);
  assert.equal(frameFile({}, undefined), null);
});

test("an offer is read with the welcome, and an impossible one is none", () => {
  const welcome = { type: "welcome", version: 1, view: "me", epoch: 1 };
  assert.deepEqual(parseKernelMessage({ ...welcome, road: OFFER }).road, OFFER);
  const { proxy, ...least } = OFFER;
  assert.deepEqual(parseKernelMessage({ ...welcome, road: least }).road, OFFER);
  for (const road of [
    undefined,
    null,
    7,
    {},
    { ...OFFER, port: 0 },
    { ...OFFER, port: 65536 },
    { port: 80 },
  ]) {
    assert.equal(parseKernelMessage({ ...welcome, road }).road, null);
  }
});

// ----- the road itself, with a websocket that the test plays

class Socket {
  static made = [];
  sent = [];
  closed = false;
  constructor(url) {
    if (url === "forbidden") {
      throw new Error("the page's policy forbids it");
    }
    this.url = url;
    Socket.made.push(this);
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.closed = true;
  }
  breaks() {
    this.onclose({ code: 1006, reason: "" });
  }
  accept() {
    this.onopen();
    this.onmessage({ data: '{"type":"accepted"}' });
  }
}

const told = [];
const owner = {
  onRoadOpen: () => told.push("open"),
  onRoadMessage: (content) => told.push(content.type),
  onRoadLost: () => told.push("lost"),
  onRoadRefused: (reason) => told.push(`refused: ${reason}`),
};

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.window = globalThis;
  globalThis.WebSocket = Socket;
  Socket.made = [];
  told.length = 0;
});

test("the token is said first, and nothing else before it was accepted", () => {
  const road = new Road(owner, () => ["a"]);
  road.offer(OFFER);
  const [socket] = Socket.made;
  assert.equal(road.send({ type: "ack" }), false);
  socket.onopen();
  assert.deepEqual(socket.sent, [{ type: "token", token: "secret" }]);
  assert.deepEqual([told, road.name], [[], "comm"], "open is not accepted: it may be a proxy's");
  socket.onmessage({ data: '{"type":"accepted"}' });
  assert.deepEqual([told, road.name], [["open"], "websocket"]);
  assert.equal(road.send({ type: "ack" }), true);
  socket.onmessage({ data: '{"type":"welcome"}' });
  assert.deepEqual(told, ["open", "welcome"]);
  road.offer({ ...OFFER });
  assert.equal(Socket.made.length, 1, "what is used is not opened twice");
});

test("each address is tried in turn, and then it stays with the comm", () => {
  const road = new Road(owner, () => ["forbidden", "silent", "refused", "stranger"]);
  road.offer(OFFER);
  mock.timers.tick(OPEN_TIMEOUT_MS);
  Socket.made[1].breaks();
  Socket.made[2].onopen();
  Socket.made[2].onmessage({ data: "hello?" });
  assert.deepEqual(
    Socket.made.map(({ url, closed }) => [url, closed]),
    [
      ["silent", true],
      ["refused", true],
      ["stranger", true],
    ],
  );
  assert.deepEqual(told, ["refused: stranger is not the kernel"]);
  mock.timers.tick(60_000);
  road.offer({ ...OFFER });
  assert.equal(Socket.made.length, 3, "not tried again");
  road.offer({ ...OFFER, token: "another" });
  assert.equal(Socket.made.length, 4, "a new offer is");
});

test("without an address it says why at once", () => {
  new Road(owner, () => []).offer(OFFER);
  assert.equal(told.length, 1);
  assert.match(told[0], /^refused: .*not on the kernel's machine/);
});

test("what breaks is tried again, with growing pauses, a few times", () => {
  const road = new Road(owner, () => ["a"]);
  road.offer(OFFER);
  Socket.made[0].accept();
  Socket.made[0].breaks();
  assert.deepEqual([told, road.name, road.send({})], [["open", "lost"], "comm", false]);
  road.offer({ ...OFFER }); // with the welcome to the hello over the comm
  assert.equal(Socket.made.length, 1, "the pause is kept");
  for (const [index, pause] of RETRY_MS.entries()) {
    mock.timers.tick(pause - 1);
    assert.equal(Socket.made.length, index + 1);
    mock.timers.tick(1);
    assert.equal(Socket.made.length, index + 2);
    Socket.made[index + 1].breaks();
  }
  mock.timers.tick(600_000);
  assert.equal(Socket.made.length, RETRY_MS.length + 1);
  assert.deepEqual(told, ["open", "lost", "refused: a refused"]);
});

test("a road that was closed says and does no more", () => {
  const road = new Road(owner, () => ["a"]);
  road.offer(OFFER);
  Socket.made[0].accept();
  road.close();
  assert.deepEqual([Socket.made[0].closed, Socket.made[0].onclose, road.name], [true, null, "comm"]);
  road.offer(OFFER);
  road.close();
  mock.timers.tick(60_000);
  assert.deepEqual([Socket.made.length, told], [2, ["open"]]);
});
