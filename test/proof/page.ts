/** Where evidence is kept, and the page about it. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem, type } from "node:os";
import { join } from "node:path";
import { type CodeBook, changesSince, noCode, onlyFor, withClosure } from "./code/changes.ts";
import { type Closure, closuresOf, codeOf } from "./code/closure.ts";
import { filesBelow } from "./code/files.ts";
import { descriptions } from "./descriptions.ts";
import { findings } from "./findings.ts";
import type { Ledger } from "./ledger.ts";
import { renderReport } from "./report.ts";

export const pagePath = "docs/proof.md";
const ledgerPath = "docs/proof.json";
const bookPath = "docs/proof-code.json";

/** docs/proof.md as it has to be now. */
export function renderProofPage(root: string): string {
  const closureOf = closuresOf(filesBelow(root));
  const ledger = readLedger(root);
  const book = readJson<CodeBook>(root, bookPath) ?? noCode;
  return renderReport({
    ledger,
    descriptions,
    findings,
    today: (tier) => {
      const closure = closureOf(tier);
      return {
        code: codeOf(closure),
        changesSince: ({ library }) => changesSince(book, library, closure.library),
      };
    },
  });
}

export function readLedger(root: string): Ledger {
  return readJson<Ledger>(root, ledgerPath) ?? { machine: machineOf(), tiers: {} };
}

/** Writes the ledger, and the code that it speaks of. */
export function writeEvidence(root: string, tiers: Ledger["tiers"], closure: Closure): void {
  const ledger: Ledger = { machine: machineOf(), tiers };
  writeJson(root, ledgerPath, ledger);
  const digests = Object.values(tiers).flatMap((entries) =>
    entries.flatMap(({ source }) => (source.code === null ? [] : [source.code.library])),
  );
  const before = readJson<CodeBook>(root, bookPath) ?? noCode;
  writeJson(root, bookPath, onlyFor(withClosure(before, closure.library), new Set(digests)));
}

function readJson<T>(root: string, path: string): T | null {
  const file = join(root, path);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as T) : null;
}

function writeJson(root: string, path: string, value: unknown): void {
  writeFileSync(join(root, path), `${JSON.stringify(value, null, 2)}\n`);
}

function machineOf(): string {
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${cpus()[0]?.model.trim() ?? "unknown"}, ${cpus().length} cores, ${gib} GiB, ${type()} ${release()}, Node ${process.versions.node}.`;
}
