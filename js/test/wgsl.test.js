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

test("loops are written out, inner ones first, with numbers and names", () => {
  const stage = "  #unroll i 1..3\nlet v$$i = $i;\n#unroll k 0..2\nuse(v$$i, $k);\n#end\n  #end\nend\n";
  assert.equal(
    assemble(stage, {}).replaceAll(/\n+/g, "\n"),
    "let v1 = 1u;\nuse(v1, 0u);\nuse(v1, 1u);\nlet v2 = 2u;\nuse(v2, 0u);\nuse(v2, 1u);\nend\n",
  );
});

test("a module that is not bundled is named", () => {
  assert.throws(() => assemble("#import nowhere", {}), /nowhere/);
});
