/**
 * The decoders without the widget, for pages of one's own: benchmarks and tests build and load this module
 * (`node build.mjs --decoding FILE`). It is no part of the front end.
 */
export { JpegError, parse } from "./decoders/bitstream";
export { JpegDecoder } from "./decoders/jpeg";
export { PngDecoder } from "./decoders/png";
export { parse as parsePng } from "./decoders/png-file";
export { acquireGpu } from "./device";
export { BrowserPresenter, GpuPresenter } from "./presenter";
