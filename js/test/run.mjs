/*
 * Bundles each test with the sources that it imports and runs them all with node's own test runner.
 * It needs no browser and no GPU: what needs one is tested end to end, from Python.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadEsbuild, options } from "../build.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const built = join(here, ".built");
const tests = readdirSync(here).filter((name) => name.endsWith(".test.js"));

rmSync(built, { recursive: true, force: true });
const esbuild = await loadEsbuild();
await esbuild.build({
  ...options("0.0.0"),
  entryPoints: tests.map((name) => join(here, name)),
  outdir: built,
  platform: "node",
});
const args = ["--test", ...tests.map((name) => join(built, name))];
process.exit(spawnSync(process.execPath, args, { stdio: "inherit" }).status ?? 1);
