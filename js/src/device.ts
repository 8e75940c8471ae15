/**
 * One GPUDevice for all canvases of a page. Browsers drop GPU contexts when a page makes many, and each device compiles
 * its own shaders. It never destroys the device, and never decides whether a canvas uses it.
 */

/**
 * A page may have two releases of this module, so a module variable is not one per page. The number names the shape of what is
 * shared: a release that changes the shape changes the number, and then shares with its own kind only.
 */
const SHARE_KEY = Symbol.for("rfb_gpu.gpu.v1");

/** requestAdapter has been seen to hang behind a stuck GPU process; the picture must not wait for that. */
const START_TIMEOUT_MS = 8000;
/**
 * A browser whose GPU process is still starting says that there is no adapter, and a second later has one. It is asked again after
 * these times; pictures wait for the first few only.
 */
const ADAPTER_WAITS_MS = [100, 200, 400, 800, 1600, 3200] as const;
const ADAPTER_PATIENCE = 2;
/** A device that is lost sooner than this after the one before it would only be lost again. */
const MIN_HEALTHY_MS = 60_000;

/** Above the default limits, what large frames need. More costs nothing where the adapter has it. */
const WANTED_LIMITS = ["maxTextureDimension2D", "maxBufferSize", "maxStorageBufferBindingSize"] as const;

/** The picture can then be made in the format of a canvas, and be copied to it. */
const WANTED_FEATURES = ["bgra8unorm-storage"] as const;

/** Adapters that compute on the CPU, by the names that they have in their info. */
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|microsoft basic render/i;

export interface Gpu {
  readonly device: GPUDevice;
  /** One line that names the adapter. */
  readonly adapter: string;
  /** It is a CPU, which takes seconds to compile a shader. */
  readonly isSoftware: boolean;
  /** Compute and render pipelines by their WGSL source, for all canvases: see once(). */
  readonly pipelines: Map<string, Promise<unknown>>;
  /** Resolves when the device can no longer be used. */
  readonly failed: Promise<GpuFailure>;
}

export interface GpuFailure {
  reason: string;
  /** Whether a new device has a chance: after a lost device or lack of memory, not after an error of our own making. */
  retry: boolean;
}

interface Share {
  gpu: Promise<Gpu> | null;
  lostAt: number;
  givenUp: string | null;
}

/** Gives the page's GPU. Rejects with an Error whose message is one line for the user. */
export async function acquireGpu(allowSoftware: boolean): Promise<Gpu> {
  const share = pageShare();
  if (share.givenUp !== null) {
    throw new Error(share.givenUp);
  }
  return new Promise((resolve, reject) => {
    const isSlow = (reason: string) => reject(new SlowStart(reason, started));
    const timer = setTimeout(isSlow, START_TIMEOUT_MS, "the GPU did not start in time");
    const started = start(share, allowSoftware, isSlow);
    started.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** The GPU takes too long to wait for it; it may start yet. */
export class SlowStart extends Error {
  constructor(
    reason: string,
    readonly started: Promise<Gpu>,
  ) {
    super(reason);
  }
}

/** Makes a pipeline, or waits for the same one that another canvas is making. */
export function once<P>(gpu: Gpu, source: string, make: () => Promise<P>): Promise<P> {
  const known = gpu.pipelines.get(source) as Promise<P> | undefined;
  const pipeline = known ?? make();
  gpu.pipelines.set(source, pipeline);
  return pipeline;
}

async function start(share: Share, allowSoftware: boolean, isSlow: (reason: string) => void): Promise<Gpu> {
  if (!navigator.gpu) {
    throw new Error(
      window.isSecureContext
        ? "this browser has no WebGPU"
        : "WebGPU needs a secure page: https, or http on localhost",
    );
  }
  // Each canvas asks for an adapter of its own, as one may accept a software adapter where another must not.
  const adapter = await findAdapter(isSlow);
  if (!allowSoftware && isSoftware(adapter.info)) {
    // The browser's own decoder is native code on all cores: shaders on a CPU are several times slower.
    throw new Error(`WebGPU runs on the CPU here (${describe(adapter.info)})`);
  }
  share.gpu ??= openDevice(share, adapter);
  return share.gpu;
}

async function findAdapter(isSlow: (reason: string) => void): Promise<GPUAdapter> {
  const reason = "the browser offers no GPU (no WebGPU adapter)";
  for (const [asked, wait] of [...ADAPTER_WAITS_MS, 0].entries()) {
    const adapter = await navigator.gpu.requestAdapter();
    if (adapter) {
      return adapter;
    }
    if (asked >= ADAPTER_PATIENCE) {
      isSlow(reason);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  throw new Error(reason);
}

async function openDevice(share: Share, adapter: GPUAdapter): Promise<Gpu> {
  try {
    const requiredLimits = Object.fromEntries(WANTED_LIMITS.map((name) => [name, adapter.limits[name]]));
    const requiredFeatures = WANTED_FEATURES.filter((name) => adapter.features.has(name));
    const device = await adapter.requestDevice({ label: "rfb_gpu", requiredFeatures, requiredLimits });
    return {
      device,
      adapter: describe(adapter.info),
      isSoftware: isSoftware(adapter.info),
      pipelines: new Map(),
      failed: watch(share, device),
    };
  } catch (error) {
    share.gpu = null;
    throw new Error(`the GPU did not start: ${messageOf(error)}`);
  }
}

/** Waits for the end of a device, and settles whether there may be another. */
async function watch(share: Share, device: GPUDevice): Promise<GpuFailure> {
  const error = new Promise<GpuFailure>((resolve) => {
    device.addEventListener("uncapturederror", ({ error }) => {
      // Memory may be there again, with a smaller picture or one tab less; other errors would only come back.
      const retry = error instanceof GPUOutOfMemoryError;
      resolve({ reason: `WebGPU error: ${firstLine(error.message)}`, retry });
    });
  });
  const lost = device.lost.then((info) => {
    return { reason: `the GPU device was lost: ${firstLine(info.message) || info.reason}`, retry: true };
  });
  const failure = await Promise.race([error, lost]);
  failure.retry &&= performance.now() - share.lostAt > MIN_HEALTHY_MS;
  share.lostAt = performance.now();
  share.gpu = null;
  if (!failure.retry) {
    share.givenUp = failure.reason;
  }
  return failure;
}

function pageShare(): Share {
  const page = globalThis as { [SHARE_KEY]?: Share };
  page[SHARE_KEY] ??= { gpu: null, lostAt: Number.NEGATIVE_INFINITY, givenUp: null };
  return page[SHARE_KEY];
}

function isSoftware(info: GPUAdapterInfo): boolean {
  return (
    info.isFallbackAdapter ||
    SOFTWARE.test(`${info.vendor} ${info.architecture} ${info.description} ${info.device}`)
  );
}

function describe(info: GPUAdapterInfo): string {
  const words = [info.vendor, info.architecture, info.device, info.description].filter((word) => word !== "");
  return [...new Set(words)].join(" ") || "unnamed adapter";
}

/** What went wrong, as a clause: one line, no full stop. */
export function messageOf(error: unknown): string {
  return firstLine(error instanceof Error ? error.message : String(error));
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]!.slice(0, 300).replace(/\.$/, "");
}
