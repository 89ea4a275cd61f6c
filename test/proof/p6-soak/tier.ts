/** P6: real processes, real servers, real faults. Its parts run one after the other, each with its share of the time. */
import { existsSync } from "node:fs";
import type { Sitting, Tier, TierResult } from "../harness/tier.ts";
import type { Part } from "./part.ts";
import { soak } from "./soak.ts";

/** Where each part stands. One that is over is not begun again. */
type Progress = Readonly<Record<string, { readonly over: boolean; readonly resume: unknown }>>;

const failoverPart = new URL("../p6-failover/part.ts", import.meta.url);

/** All parts: to be extended here. */
async function partsOf(): Promise<{ readonly parts: readonly Part[]; readonly missing: readonly string[] }> {
  if (!existsSync(failoverPart)) return { parts: [soak], missing: ["failover"] };
  const { failover } = (await import(failoverPart.href)) as { readonly failover: Part };
  return { parts: [soak, failover], missing: [] };
}

export const tier: Tier = {
  id: "P6",
  run,
};

async function run(sitting: Sitting): Promise<TierResult> {
  const { parts, missing } = await partsOf();
  const result = await runParts(parts, sitting);
  const notRun = missing.map((name) => ({ what: `P6, ${name}`, reason: "this part is not there" }));
  return { ...result, notRun: [...notRun, ...result.notRun] };
}

/** Those that are not over, or the one that `LATCHKEY_PROOF_ONLY` names. */
export async function runParts(parts: readonly Part[], sitting: Sitting): Promise<TierResult> {
  const only = process.env.LATCHKEY_PROOF_ONLY ?? "";
  const before = (sitting.resume ?? {}) as Progress;
  const wanted = parts.filter(({ name }) => only === "" || only.split(":")[0] === name);
  const left = wanted.filter(({ name }) => only !== "" || before[name]?.over !== true);
  const results: TierResult[] = [];
  let progress: Progress = before;
  for (const [at, part] of left.entries()) {
    const now = performance.now();
    const untilMs = now + (sitting.untilMs - now) / (left.length - at);
    const result = await part.run({ ...sitting, untilMs, resume: before[part.name]?.resume ?? null });
    results.push(result);
    progress = { ...progress, [part.name]: { over: result.resume === null, resume: result.resume } };
  }
  const isOver = parts.every(({ name }) => progress[name]?.over === true);
  return addedUp(results, isOver ? null : progress);
}

function addedUp(results: readonly TierResult[], resume: Progress | null): TierResult {
  const counts = (pick: (result: TierResult) => Readonly<Record<string, number>>) => {
    const sum: Record<string, number> = {};
    for (const [what, count] of results.flatMap((result) => Object.entries(pick(result)))) {
      sum[what] = (sum[what] ?? 0) + count;
    }
    return sum;
  };
  return {
    covered: results.flatMap(({ covered }) => covered),
    reached: counts(({ reached }) => reached),
    faults: counts(({ faults }) => faults),
    versions: Object.assign({}, ...results.map(({ versions }) => versions)) as Record<string, string>,
    notRun: results.flatMap((result) => result.notRun),
    planted: results.flatMap(({ planted }) => planted ?? []),
    measured: results.flatMap(({ measured }) => measured ?? []),
    resume,
  };
}
