import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const conformance = join(import.meta.dirname, "../../../latchkey-conformance/src");

function namesIn(text: string, clause: RegExp): readonly string[] {
  return [...text.matchAll(clause)].flatMap(([, names = ""]) =>
    names.split(",").flatMap((name) => name.trim().replace(/^type /u, "") || []),
  );
}

test("holds what the conformance suites import, and nothing else", () => {
  const exported = namesIn(
    readFileSync(join(import.meta.dirname, "index.ts"), "utf8"),
    /export (?:type )?\{([^}]*)\}/gu,
  );
  const used = readdirSync(conformance, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .flatMap((path) =>
      namesIn(
        readFileSync(join(conformance, path), "utf8"),
        /import (?:type )?\{([^}]*)\} from "latchkey\/internal"/gu,
      ),
    );
  expect([...exported].sort()).toEqual([...new Set(used)].sort());
});
