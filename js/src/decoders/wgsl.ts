/**
 * Assembles a compute stage: constants first, then the modules that it imports, then the stage itself.
 *
 * The files are the Python package's own, and rfb_gpu/codecs/wgsl.py does the same. What the two hosts' compilers need
 * differently belongs here and there, and nowhere else. Never a preprocessor, but for `#unroll`: compilers keep an array
 * in registers only where its indices are written out.
 */
import blocks from "wgsl:shaders/blocks.wgsl";
import colour from "wgsl:shaders/colour.wgsl";
import dct from "wgsl:shaders/dct.wgsl";
import decoderFrame from "wgsl:shaders/decoder_frame.wgsl";
import pngPixels from "wgsl:shaders/png_pixels.wgsl";
import pngRows from "wgsl:shaders/png_rows.wgsl";
import rounding from "wgsl:shaders/rounding.wgsl";

const MODULES = new Map([
  ["blocks", blocks],
  ["colour", colour],
  ["dct", dct],
  ["decoder_frame", decoderFrame],
  ["png_pixels", pngPixels],
  ["png_rows", pngRows],
  ["rounding", rounding],
]);

const IMPORT = /^#import +([a-z0-9_]+) *$/gm;

/** An innermost `#unroll i 0..8` ... `#end`. */
const UNROLL =
  /^[ \t]*#unroll +([a-z]+) +(\d+)\.\.(\d+)[ \t]*\n((?:(?!^[ \t]*#unroll).*\n)*?)^[ \t]*#end[ \t]*$/m;

/** Whole numbers become u32 constants, as in Python. */
export type Constants = Readonly<Record<string, boolean | number>>;

/** The complete WGSL of one stage. Each module is taken once, in the order of first mention. */
export function assemble(
  stage: string,
  constants: Constants,
  modules: ReadonlyMap<string, string> = MODULES,
): string {
  const parts = Object.entries(constants).map(([name, value]) => `const ${name} = ${literal(value)};`);
  const seen = new Set<string>();
  const add = (text: string) => {
    for (const [, name] of text.matchAll(IMPORT)) {
      if (!seen.has(name!)) {
        seen.add(name!);
        const module = modules.get(name!);
        if (module === undefined) {
          throw new Error(`a shader imports ${name}, which is not in the bundle`);
        }
        add(module);
      }
    }
    parts.push(unroll(text.replace(IMPORT, "")));
  };
  add(stage);
  return parts.join("\n");
}

/** Writes out the loops, inner ones first: `$i` is the number as a u32, `$$i` its digits, to make names of. */
function unroll(text: string): string {
  let done = text;
  for (let loop = UNROLL.exec(done); loop; loop = UNROLL.exec(done)) {
    const [whole, name, first, end, body] = loop as unknown as [string, string, string, string, string];
    const turns = Array.from({ length: Number(end) - Number(first) }, (_, i) => {
      const digits = String(Number(first) + i);
      return body.replaceAll(`$$${name}`, () => digits).replaceAll(`$${name}`, () => `${digits}u`);
    });
    done = done.slice(0, loop.index) + turns.join("") + done.slice(loop.index + whole.length);
  }
  return done;
}

function literal(value: boolean | number): string {
  if (typeof value === "boolean") {
    return String(value);
  }
  return Number.isInteger(value) ? `${value}u` : String(value);
}
