/**
 * Decodes frames with the browser's own decoders: any JPEG or PNG, anywhere, without WebGPU.
 *
 * Browsers have up to three ways to their decoder, which differ by a factor of two to four, and the fastest of one browser
 * is the slowest of another (docs/page.md has figures). So the first frames are a race.
 */
import type { Frame } from "../protocol";

/** A decoded picture. Whoever gets it closes it. */
export interface Decoded {
  readonly source: ImageBitmap | VideoFrame | HTMLImageElement | OffscreenCanvas;
  readonly width: number;
  readonly height: number;
  close(): void;
}

/** A way to the browser's decoder. */
export interface Way {
  readonly name: string;
  decode(frame: Frame): Promise<Decoded>;
}

const CREATE_IMAGE_BITMAP: Way = {
  name: "createImageBitmap",
  async decode(frame) {
    // The kernel's values are the ones to show: no colour profile and no alpha may change them on the way.
    const source = await createImageBitmap(blobOf(frame), {
      colorSpaceConversion: "none",
      premultiplyAlpha: "none",
    });
    return { source, width: source.width, height: source.height, close: () => source.close() };
  },
};

const IMAGE_DECODER: Way = {
  name: "ImageDecoder",
  async decode(frame) {
    const decoder = new ImageDecoder({
      data: frame.bytes,
      type: `image/${frame.codec}`,
      colorSpaceConversion: "none",
    });
    try {
      const { image: source } = await decoder.decode();
      return {
        source,
        width: source.displayWidth,
        height: source.displayHeight,
        close: () => source.close(),
      };
    } finally {
      decoder.close();
    }
  },
};

/** Heeds colour profiles, which nobody can switch off; frames have none. */
const IMG: Way = {
  name: "img",
  async decode(frame) {
    const source = new Image();
    const url = URL.createObjectURL(blobOf(frame));
    const close = () => URL.revokeObjectURL(url);
    try {
      source.src = url;
      await source.decode();
    } catch (error) {
      close();
      throw error;
    }
    return { source, width: source.naturalWidth, height: source.naturalHeight, close };
  },
};

/** The ways that this browser has. */
function availableWays(): Way[] {
  return "ImageDecoder" in globalThis
    ? [CREATE_IMAGE_BITMAP, IMAGE_DECODER, IMG]
    : [CREATE_IMAGE_BITMAP, IMG];
}

/** Decodes without a race, to what can be copied to a texture. */
export function decodeToBitmap(frame: Frame): Promise<Decoded> {
  return checked(CREATE_IMAGE_BITMAP, frame);
}

/** Frames that each way decodes before one is chosen. The best counts: the first loads code, any may meet a busy machine. */
const ROUNDS = 3;

export class BrowserDecoder {
  #ways: readonly { readonly way: Way; readonly times: number[] }[];

  /** `finish` has a picture completely decoded, and `now` is a clock; tests bring their own. */
  constructor(
    ways: readonly Way[] = availableWays(),
    private readonly finish: (picture: Decoded) => void = drawElsewhere,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#ways = ways.map((way) => ({ way, times: [] }));
  }

  /** The way that decodes; "" while the race is on. */
  get method(): string {
    return this.#racing ? "" : (this.#byTime()[0]?.way.name ?? "");
  }

  /**
   * In the race, each frame is decoded by one way only, the next in turn, so that no picture comes later for it. What one way
   * cannot read the others try. A way that fails where another does not is out; a file that all refuse counts for none.
   */
  async decode(frame: Frame): Promise<Decoded> {
    // PNG files, of which there are few, take another time.
    const timed = this.#racing && frame.codec === "jpeg";
    const order = timed ? this.#byTurn() : this.#byTime();
    const failures: unknown[] = [];
    for (const entrant of order) {
      const began = this.now();
      try {
        const picture = await checked(entrant.way, frame, timed ? this.finish : undefined);
        if (timed) {
          entrant.times.push((this.now() - began) / (picture.width * picture.height));
        }
        const failed = new Set(order.slice(0, failures.length));
        this.#ways = this.#ways.filter((each) => !failed.has(each));
        return picture;
      } catch (error) {
        failures.push(error);
      }
    }
    throw failures[0];
  }

  get #racing(): boolean {
    return this.#ways.length > 1 && this.#ways.some(({ times }) => times.length < ROUNDS);
  }

  #byTurn() {
    return [...this.#ways].sort((a, b) => a.times.length - b.times.length);
  }

  #byTime() {
    const best = ({ times }: { times: number[] }) => Math.min(Number.MAX_VALUE, ...times);
    return [...this.#ways].sort((a, b) => best(a) - best(b));
  }
}

/** Decodes a frame; a picture that is not what the frame's message says is no picture. */
async function checked(way: Way, frame: Frame, finish?: (picture: Decoded) => void): Promise<Decoded> {
  const picture = await (frame.codec === "jpeg" && frame.alpha
    ? merged(way, frame, frame.alpha)
    : way.decode(frame));
  try {
    const { width, height } = picture;
    const rows = frame.part?.rows ?? frame.height;
    if (width !== frame.width || height !== rows) {
      throw new Error(`the file is ${width} x ${height} pixels, its message says ${frame.width} x ${rows}`);
    }
    finish?.(picture);
    return picture;
  } catch (error) {
    picture.close();
    throw error;
  }
}

/** The two pictures of a JPEG with alpha as one, with straight alpha, as pixels of a 2d context are; colour is kept within what alpha allows. */
async function merged(way: Way, frame: Frame, alphaStart: number): Promise<Decoded> {
  const { bytes, width, height } = frame;
  const read = async (file: Uint8Array<ArrayBuffer>) => {
    const picture = await way.decode({ ...frame, bytes: file });
    try {
      const context = context2d(new OffscreenCanvas(picture.width, picture.height), false);
      context.drawImage(picture.source, 0, 0);
      return context.getImageData(0, 0, width, height);
    } finally {
      picture.close();
    }
  };
  const colour = await read(bytes.subarray(0, alphaStart));
  const alpha = (await read(bytes.subarray(alphaStart))).data;
  const pixels = colour.data;
  for (let i = 0; i < pixels.length; i += 4) {
    const opacity = alpha[i]!;
    pixels[i + 3] = opacity;
    if (opacity > 0 && opacity < 255) {
      // Clamped, and rounded, by the array.
      pixels[i] = (255 * pixels[i]!) / opacity;
      pixels[i + 1] = (255 * pixels[i + 1]!) / opacity;
      pixels[i + 2] = (255 * pixels[i + 2]!) / opacity;
    }
  }
  const source = new OffscreenCanvas(width, height);
  context2d(source, true).putImageData(colour, 0, 0);
  return { source, width, height, close: () => {} };
}

export function context2d<C extends HTMLCanvasElement | OffscreenCanvas>(canvas: C, alpha: boolean) {
  const context = canvas.getContext("2d", { alpha }) as
    | CanvasRenderingContext2D
    | OffscreenCanvasRenderingContext2D
    | null;
  if (!context) {
    throw new Error("the browser gave no 2d context");
  }
  return context;
}

/** Some ways put most of their work off until somebody draws, and drawing puts it off until somebody reads. */
function drawElsewhere({ source, width, height }: Decoded): void {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { alpha: false });
  context?.drawImage(source, 0, 0);
  context?.getImageData(0, 0, 1, 1);
}

function blobOf(frame: Frame): Blob {
  return new Blob([frame.bytes], { type: `image/${frame.codec}` });
}
