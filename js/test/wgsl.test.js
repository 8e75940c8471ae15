import assert from "node:assert/strict";
import { test } from "node:test";
import { assemble } from "../src/decoders/wgsl";

test("constants come first, then each module once, then the stage", () => {
  const modules = new Map([
    ["bits", "#import words\n// bits"],
    ["words", "// words"],
  ]);
  const constants = { SUBSAMPLED: true, MCU_SIZE: 16, SCALE: 0.5 };
  const lines = assemble("#import words\n#import bits\n// stage", constants, modules).split("\n");
  assert.deepEqual(
    lines.filter((line) => line !== ""),
    [
      "const SUBSAMPLED = true;",
      "const MCU_SIZE = 16u;",
      "const SCALE = 0.5;",
      "// words",
      "// bits",
      "// stage",
    ],
  );
});

test("what only the Python side writes out is refused", () => {
  assert.throws(() => assemble("#unroll i 0..8\n#end", {}), /unroll/);
});

test("a module that is not bundled is named", () => {
  assert.throws(() => assemble("#import nowhere", {}), /nowhere/);
});
