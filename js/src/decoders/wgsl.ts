/**
 * Assembles a compute stage: constants first, then the modules that it imports, then the stage itself.
 *
 * The files are the Python package's own, and rfb_gpu/codecs/wgsl.py does the same. What the two hosts' compilers need
 * differently belongs here and there, and nowhere else. Never a preprocessor. The decoder's stages have nothing to unroll,
 * so `#unroll` is refused here rather than done.
 */
import colour from "wgsl:shaders/colour.wgsl";
import dct from "wgsl:shaders/dct.wgsl";
import decoderFrame from "wgsl:shaders/decoder_frame.wgsl";

const MODULES = new Map([
  ["colour", colour],
  ["dct", dct],
  ["decoder_frame", decoderFrame],
]);

const IMPORT = /^#import +([a-z0-9_]+) *$/gm;

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
    if (text.includes("#unroll")) {
      throw new Error("a shader in the bundle has #unroll, which only the Python side writes out");
    }
    parts.push(text.replace(IMPORT, ""));
  };
  add(stage);
  return parts.join("\n");
}

function literal(value: boolean | number): string {
  if (typeof value === "boolean") {
    return String(value);
  }
  return Number.isInteger(value) ? `${value}u` : String(value);
}
