/** The buffers of a decoder by their names, which grow with what is to be decoded and never shrink. */

/** Buffers are a multiple of this long, so that a few bytes more do not make one grow. */
const BUFFER_ALIGNMENT = 256;

export class Buffers<Name extends string> {
  readonly #device: GPUDevice;
  readonly #onReplaced: (name: Name) => void;
  readonly #buffers = new Map<Name, GPUBuffer>();

  /** `onReplaced` is told when the buffer of a name is another one than before: it holds nothing, and no bind group has it. */
  constructor(device: GPUDevice, onReplaced: (name: Name) => void) {
    this.#device = device;
    this.#onReplaced = onReplaced;
  }

  get(name: Name): GPUBuffer {
    return this.#buffers.get(name)!;
  }

  /**
   * A buffer of at least so many bytes; one that has to grow gets half as much again, so that it seldom does. Throws a RangeError for
   * more than the device has.
   */
  reserve(name: Name, bytes: number, usage: GPUBufferUsageFlags = GPUBufferUsage.STORAGE): GPUBuffer {
    const known = this.#buffers.get(name);
    if (known && known.size >= bytes) {
      return known;
    }
    const { maxStorageBufferBindingSize, maxBufferSize } = this.#device.limits;
    const limit = Math.min(maxStorageBufferBindingSize, maxBufferSize);
    if (bytes > limit) {
      throw new RangeError(`decoding needs a buffer of ${bytes} bytes, this GPU's limit is ${limit}`);
    }
    known?.destroy();
    const wanted = known ? Math.min(bytes * 1.5, limit) : bytes;
    const size = Math.max(Math.ceil(wanted / BUFFER_ALIGNMENT), 1) * BUFFER_ALIGNMENT;
    const buffer = this.#device.createBuffer({
      label: `rfb_gpu ${name}`,
      size,
      usage: usage | GPUBufferUsage.COPY_DST,
    });
    this.#buffers.set(name, buffer);
    this.#onReplaced(name);
    return buffer;
  }

  destroy(): void {
    for (const buffer of this.#buffers.values()) {
      buffer.destroy();
    }
    this.#buffers.clear();
  }
}
