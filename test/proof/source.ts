/** Which code is proven: tests and pages may change without a proof starting anew. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TierId } from "./harness/tier.ts";
import type { Source } from "./ledger.ts";

/** The protocol and its stores, tests left out. How the command line reaches them is not what the tiers run. */
const folders = [
  "attempt",
  "effects",
  "engine",
  "maintenance",
  "policies",
  "resilience",
  "stores",
  "transactions",
];

/** What no tier runs, or not all of them do; of each, the files and folders whose names begin so. */
const unproven = ["stores/redis", "stores/cached", "transactions/drizzle"];
const databases = ["stores/postgres", "stores/pglite", "stores/migrate-postgres"];
const overMemory: readonly TierId[] = ["P1", "P2"];
/** Its servers answer over HTTP, on held responses. */
const overHttp: TierId = "P6";

/** What a tier runs: its volume starts anew when this changes. */
export function sourceOf(root: string, tier: TierId): Source {
  const withoutDatabase = overMemory.includes(tier);
  const leftOut = withoutDatabase ? [...unproven, ...databases, "transactions/pg"] : unproven;
  const sql = withoutDatabase ? [] : ["sql"];
  const run = tier === overHttp ? [...folders, "http"] : folders;
  const library = join(root, "packages/latchkey");
  const hash = createHash("sha256");
  for (const folder of [...run.map((name) => join("src", name)), ...sql]) {
    const files = readdirSync(join(library, folder), { recursive: true, encoding: "utf8" });
    for (const file of files.filter(isSource).sort()) {
      const path = join(folder, file);
      if (leftOut.some((start) => path.startsWith(join("src", start)))) continue;
      hash
        .update(`${path}\0`)
        .update(readFileSync(join(library, path)))
        .update("\0");
    }
  }
  return { digest: hash.digest("hex").slice(0, 16), commit: commitOf(root) };
}

function isSource(file: string): boolean {
  return file.endsWith(".sql") || (file.endsWith(".ts") && !file.endsWith(".test.ts"));
}

function commitOf(root: string): string | null {
  try {
    return execFileSync("git", ["rev-parse", "HEAD"], { cwd: root, encoding: "utf8" }).trim();
  } catch {
    return null;
  }
}
