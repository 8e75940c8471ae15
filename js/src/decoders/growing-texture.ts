/** A texture that holds pictures of changing size in its top-left corner: grown when needed, never shrunk. */

/** In steps of this many pixels, so that dragging a corner does not make one for each frame. */
const STEP = 256;

export class GrowingTexture {
  #texture: GPUTexture | null = null;

  constructor(
    private readonly device: GPUDevice,
    private readonly descriptor: Omit<GPUTextureDescriptor, "size">,
  ) {}

  /** The texture; null before the first picture. */
  get current(): GPUTexture | null {
    return this.#texture;
  }

  /** The texture, with room for a picture of this size. */
  reserve(width: number, height: number): GPUTexture {
    const known = this.#texture;
    if (known && known.width >= width && known.height >= height) {
      return known;
    }
    const limit = this.device.limits.maxTextureDimension2D;
    const grown = (side: number, old = 0) => Math.min(limit, Math.max(old, Math.ceil(side / STEP) * STEP));
    const size = [grown(width, known?.width), grown(height, known?.height)];
    known?.destroy();
    this.#texture = this.device.createTexture({ ...this.descriptor, size });
    return this.#texture;
  }

  destroy(): void {
    this.#texture?.destroy();
    this.#texture = null;
  }
}
