/*
 * Builds the front end: one script and one style sheet in ../rfb_gpu/static/.
 * It never uses the network, and never changes what it copies: renderview.js and renderview.css come unchanged from the
 * rendercanvas package.
 *
 *   node build.mjs --decoding FILE the decoders alone, as a module that exports them (src/decoding.ts): what benchmarks
 *                                  and tests load in a page of their own
 *   node build.mjs [FOLDER]        FOLDER holds renderview.js and renderview.css; the default is $RENDERVIEW_DIR,
 *                                  then the copy of the last build in src/vendor/
 *   RFB_GPU_STATIC=FOLDER          where the result goes, instead of ../rfb_gpu/static
 *   RFB_GPU_VERSION=X              the release that the page names in `hello`, instead of the version in package.json
 */
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const vendor = join(here, "src", "vendor");
const codecs = resolve(here, "..", "rfb_gpu", "codecs");
const VENDORED = ["renderview.js", "renderview.css"];

function fail(problem, cure) {
  console.error(`build.mjs: ${problem}\n  Cure: ${cure}`);
  process.exit(1);
}

/** Brings the vendored files to src/vendor/. */
export function vendorRenderview(folder) {
  if (folder) {
    mkdirSync(vendor, { recursive: true });
    for (const name of VENDORED) {
      const from = join(folder, name);
      if (!existsSync(from)) {
        fail(`${from} does not exist.`, 'name the "core" folder of an installed rendercanvas, 2.7 or newer.');
      }
      copyFileSync(from, join(vendor, name));
    }
  } else if (VENDORED.some((name) => !existsSync(join(vendor, name)))) {
    fail(
      "it does not know where renderview.js is.",
      'RENDERVIEW_DIR="$(python -c "import rendercanvas.core as c; print(c.__path__[0])")" npm run build',
    );
  }
}

/** Lets `import text from "wgsl:jpeg/stage.wgsl"` read a shader of the Python package, so that both hosts run one file. */
export const wgslPlugin = {
  name: "wgsl",
  setup(build) {
    build.onResolve({ filter: /^wgsl:/ }, (args) => {
      const path = resolve(codecs, args.path.slice("wgsl:".length));
      if (!existsSync(path)) {
        return {
          errors: [{ text: `${relative(here, path)} does not exist: js/ is built inside a whole checkout.` }],
        };
      }
      return { path };
    });
  },
};

/** The options that the bundle and the tests share. */
export function options(version) {
  return {
    bundle: true,
    format: "esm",
    target: "es2022",
    loader: { ".wgsl": "text" },
    define: { __RFB_GPU_VERSION__: JSON.stringify(version) },
    plugins: [wgslPlugin],
    logLevel: "warning",
  };
}

/** esbuild, or a message that says how to get it. */
export async function loadEsbuild() {
  try {
    return await import("esbuild");
  } catch {
    return fail("esbuild is not installed.", "run `npm ci` in js/ first.");
  }
}

export function packageVersion() {
  return process.env.RFB_GPU_VERSION ?? JSON.parse(readFileSync(join(here, "package.json"), "utf8")).version;
}

async function buildDecoding(file) {
  if (!file) {
    fail("--decoding needs the name of the file to write.", "node build.mjs --decoding ../build/decoding.js");
  }
  const esbuild = await loadEsbuild();
  // Minified like the widget: what is measured is what runs there.
  await esbuild.build({
    ...options(packageVersion()),
    entryPoints: [join(here, "src", "decoding.ts")],
    outfile: resolve(file),
    minify: true,
    legalComments: "none",
  });
}

/**
 * The module that runs the bundle once in a page. anywidget imports a widget's text anew for each widget, and browsers never free
 * a module: so this is one that costs next to nothing. A function that is not called is not compiled, and equal texts are kept once.
 */
export function asSharedModule(bundle) {
  const key = `rfb_gpu ${createHash("sha256").update(bundle).digest("hex").slice(0, 16)}`;
  return `function load(){const module={exports:{}};${bundle}return module.exports}
const shared=globalThis[Symbol.for("${key}")]??=load();
export default shared.default;
export const connect=shared.connect;
`;
}

async function main() {
  if (process.argv[2] === "--decoding") {
    await buildDecoding(process.argv[3]);
    return;
  }
  vendorRenderview(process.argv[2] ?? process.env.RENDERVIEW_DIR);
  const esbuild = await loadEsbuild();
  const out = process.env.RFB_GPU_STATIC ?? resolve(here, "..", "rfb_gpu", "static");
  mkdirSync(out, { recursive: true });
  try {
    const { outputFiles } = await esbuild.build({
      ...options(packageVersion()),
      entryPoints: [join(here, "src", "index.ts")],
      format: "cjs",
      write: false,
      minify: true,
      legalComments: "none",
    });
    writeFileSync(join(out, "widget.js"), asSharedModule(outputFiles[0].text));
  } catch {
    fail("the bundle was not made.", "mend the errors above; `npm run check` names the types.");
  }
  const css = [join(vendor, "renderview.css"), join(here, "src", "style.css")].map((path) =>
    readFileSync(path, "utf8"),
  );
  writeFileSync(join(out, "widget.css"), css.join("\n"));
  console.log(`built ${join(out, "widget.js")} and widget.css`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main();
}
