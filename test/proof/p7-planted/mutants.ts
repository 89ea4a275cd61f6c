/** Stryker on the pure core: every small change of it is noticed by its tests, or listed here as no change at all. */
import { readFileSync, rmSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { LogLevel, MutantResult } from "@stryker-mutator/api/core";
import { scratchDirectory } from "../../support/scratch.ts";
import { workersCount } from "../harness/workers.ts";

const root = resolve(import.meta.dirname, "../../..");
export const core = "packages/latchkey/src/engine";

/** A place in the core whose change nobody can notice. */
interface Equivalent {
  readonly file: string;
  /** The changed line and the one after it. */
  readonly code: string;
  readonly why: string;
}

const unreachable = "never run: the types leave no other case";

const equivalents: readonly Equivalent[] = [
  {
    file: "classify.ts",
    code: "default: return answered.serverErrors satisfies never;",
    why: unreachable,
  },
  {
    file: "classify.ts",
    code: 'case "release": return "release";',
    why: "without it the last case gives the policy back, which is `release`",
  },
  {
    file: "decide.ts",
    code: 'case "expired": return answer({ kind: "expired" });',
    why: "never run: `decide` has asked `isExpired` before",
  },
  {
    file: "decide.ts",
    code: 'return answer({ kind: "expired" }); default:',
    why: "never run: `decide` has asked `isExpired` before",
  },
  { file: "decide.ts", code: "default: return record satisfies never;", why: unreachable },
  { file: "decide.ts", code: "default: return false;", why: "nothing is as false as false" },
];

export interface Mutated {
  readonly killed: number;
  /** Of the others, those that are listed as no change. */
  readonly equivalent: number;
  readonly all: number;
  /** Those that nobody has noticed, each with its place and change. */
  readonly survivors: readonly string[];
}

/** A minute of one processor. */
export async function mutateCore(): Promise<Mutated> {
  // Half a second, and everything that runs a tier would load it.
  const { Stryker } = await import("@stryker-mutator/core");
  const scratch = scratchDirectory("us");
  try {
    const results = await new Stryker({
      testRunner: "vitest",
      plugins: [fileURLToPath(import.meta.resolve("@stryker-mutator/vitest-runner"))],
      mutate: [`${core}/*.ts`, `!${core}/*.test.ts`],
      vitest: { configFile: relative(root, join(import.meta.dirname, "core.vitest.ts")), related: false },
      // TypeScript 7 has no API with which Stryker could rewrite one for its sandbox; vitest needs none.
      tsconfigFile: "none",
      coverageAnalysis: "perTest",
      concurrency: workersCount(),
      tempDirName: scratch,
      reporters: [],
      logLevel: "error" as LogLevel,
    }).runMutationTest();
    return mutatedOf(results);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function mutatedOf(results: readonly MutantResult[]): Mutated {
  const counted = results.filter(({ status }) => status !== "Ignored");
  const left = counted.filter(({ status }) => status !== "Killed" && status !== "Timeout");
  const survivors = left.filter((mutant) => !isEquivalent(mutant));
  return {
    killed: counted.length - left.length,
    equivalent: left.length - survivors.length,
    all: counted.length,
    survivors: survivors.map(({ fileName, location, mutatorName, replacement, status }) => {
      const place = `${relative(root, fileName)}:${location.start.line}`;
      return `${place}, ${mutatorName} → ${replacement} (${status})`;
    }),
  };
}

function isEquivalent({ fileName, location }: MutantResult): boolean {
  const lines = readFileSync(fileName, "utf8").split("\n");
  const { line } = location.start;
  const code = [lines[line - 1], lines[line]].map((text) => text?.trim()).join(" ");
  return equivalents.some((one) => fileName.endsWith(`${core}/${one.file}`) && one.code === code);
}
