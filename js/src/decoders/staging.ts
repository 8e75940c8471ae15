/**
 * The way of large data to the GPU: through mapped memory, which the browser shares with its GPU process. That takes the main thread one
 * copy, about half of writeBuffer's time.
 */

/** What is mapped ahead is longer than the last data by this, as files of a stream differ. */
const SPARE = 1.25;
const ALIGNMENT = 256;

export class Staging {
  readonly #device: GPUDevice;
  #buffer: GPUBuffer | null = null;
  /** Bytes of it that are mapped, or will be. All of these are copied once more, in the GPU process. */
  #mapped = 0;
  #last = 0;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Bytes to the beginnings of buffers, filled up with zeros to whole words, ahead of what else is put into `commands` afterwards. */
  upload(
    commands: GPUCommandEncoder,
    parts: readonly (readonly [GPUBuffer, Uint8Array<ArrayBuffer>])[],
  ): void {
    this.#last = parts.reduce((sum, [, bytes]) => sum + wholeWords(bytes), 0);
    const memory = this.#memory(this.#last);
    if (!memory) {
      for (const [buffer, bytes] of parts) {
        writeBuffer(this.#device.queue, buffer, bytes);
      }
      return;
    }
    let at = 0;
    for (const [buffer, bytes] of parts) {
      const length = wholeWords(bytes);
      memory.set(bytes, at);
      memory.fill(0, at + bytes.length, at + length);
      commands.copyBufferToBuffer(this.#buffer!, at, buffer, 0, length);
      at += length;
    }
    this.#buffer!.unmap();
  }

  /** Submits commands, which may have uploads. */
  submit(commands: GPUCommandEncoder): void {
    this.#device.queue.submit([commands.finish()]);
    const buffer = this.#buffer!;
    if (buffer.mapState === "pending") {
      return; // the GPU still has the data of a file before
    }
    buffer.unmap(); // where it was mapped, that was too little
    this.#mapped = Math.min(buffer.size, aligned(this.#last * SPARE));
    buffer.mapAsync(GPUMapMode.WRITE, 0, this.#mapped).catch(() => {}); // destroyed, or the device is lost
  }

  destroy(): void {
    this.#buffer?.destroy();
    this.#buffer = null;
  }

  /** Null while the GPU has the data of a file before. */
  #memory(bytes: number): Uint8Array<ArrayBuffer> | null {
    const known = this.#buffer;
    if (!known || known.size < bytes) {
      known?.destroy();
      this.#mapped = aligned(known ? bytes * SPARE : bytes);
      this.#buffer = this.#device.createBuffer({
        label: "rfb_gpu staging",
        size: this.#mapped,
        usage: GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC,
        mappedAtCreation: true,
      });
    }
    const isMapped = this.#buffer!.mapState === "mapped" && bytes <= this.#mapped;
    return isMapped ? new Uint8Array(this.#buffer!.getMappedRange(0, bytes)) : null;
  }
}

/** writeBuffer takes multiples of four: the last one to three bytes go by themselves, filled up. */
function writeBuffer(queue: GPUQueue, buffer: GPUBuffer, bytes: Uint8Array<ArrayBuffer>): void {
  const whole = bytes.length & ~3;
  queue.writeBuffer(buffer, 0, bytes, 0, whole);
  if (whole < bytes.length) {
    const tail = new Uint8Array(4);
    tail.set(bytes.subarray(whole));
    queue.writeBuffer(buffer, whole, tail);
  }
}

function wholeWords({ length }: Uint8Array): number {
  return Math.ceil(length / 4) * 4;
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}
