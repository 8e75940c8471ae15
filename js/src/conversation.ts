/**
 * One view's half of the conversation: it names the view, numbers the messages and starts new epochs. What is said within one
 * task of the page goes together, as one of the host's messages: these cost more than what is in them, in Jupyter 1.4 kB of
 * statuses from the kernel each. It never reads a message.
 */
import { type Envelope, type PageMessage, PROTOCOL_VERSION } from "./protocol";

export type Hello = Omit<Extract<PageMessage, { type: "hello" }>, "type" | "version">;

export class Conversation {
  /** A random name. A reload makes a new one, so what the old page left unacknowledged cannot be taken for ours. */
  readonly view: string;
  #epoch = 0;
  #seq = 0;
  #ended = false;
  #outbox: (PageMessage & Envelope)[] = [];

  constructor(
    private readonly transport: (content: Envelope | Envelope[]) => void,
    view: string = randomId(),
  ) {
    this.view = view;
  }

  get epoch(): number {
    return this.#epoch;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Starts the next epoch: the kernel forgets what was in flight and answers with a welcome and a whole frame. */
  hello(facts: Hello): void {
    this.#flush();
    this.#ended = false;
    this.#epoch += 1;
    this.#seq = 0;
    this.#post({ type: "hello", version: PROTOCOL_VERSION, ...facts });
    this.#flush(); // alone: a kernel of another version understands that much
  }

  send(message: Exclude<PageMessage, { type: "hello" }>): void {
    if (this.#epoch > 0 && !this.#ended) {
      this.#post(message);
    }
  }

  /** Says goodbye; nothing is sent after it, until the next hello. `unseen`: see the message. */
  bye(unseen: boolean): void {
    this.send({ type: "bye", unseen });
    this.#flush(); // a page that goes away has no later
    this.#ended = true;
  }

  #post(message: PageMessage): void {
    this.#outbox.push({ ...message, view: this.view, epoch: this.#epoch, seq: this.#seq });
    this.#seq += 1;
    if (this.#outbox.length === 1) {
      queueMicrotask(() => this.#flush());
    }
  }

  #flush(): void {
    const [first, ...rest] = this.#outbox;
    this.#outbox = [];
    if (first) {
      try {
        this.transport(rest.length > 0 ? [first, ...rest] : first);
      } catch {
        // The comm is closed, as when the page goes away or the kernel died. There is nobody left to tell.
      }
    }
  }
}

/** 128 random bits. crypto.randomUUID would do, but it exists in secure contexts only. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
