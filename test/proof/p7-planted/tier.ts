/** P7: whether the other tiers would notice. */

import { drawFrom } from "../harness/seeded.ts";
import {
  type Coverage,
  type PlantedResult,
  ProofFailure,
  type Sitting,
  type Tier,
  type TierId,
  type TierResult,
} from "../harness/tier.ts";
import type { Bug } from "./bug.ts";
import { bugs } from "./bugs.ts";
import { catchBug } from "./catch-bug.ts";
import { core, mutateCore } from "./mutants.ts";

export const tier: Tier = {
  id: "P7",
  run,
};

const smallCount = 2;

async function run(sitting: Sitting): Promise<TierResult> {
  const only = process.env.LATCHKEY_PROOF_ONLY;
  delete process.env.LATCHKEY_PROOF_ONLY;
  const done = new Set(Array.isArray(sitting.resume) ? sitting.resume.map(String) : []);
  const wanted = only === undefined ? chosen(sitting) : bugs.filter(({ name }) => name.includes(only));
  const planted: PlantedResult[] = [];
  const wrong: string[] = [];
  for (const bug of wanted) {
    if (done.has(bug.name)) continue;
    if (performance.now() >= sitting.untilMs) break;
    const result = await judged(bug, sitting).catch((error: unknown) => String(error));
    if (typeof result === "string") wrong.push(result);
    else planted.push(result);
    done.add(bug.name);
  }
  failFor(wrong, sitting, planted.length + wrong.length);
  const complete = bugs.every(({ name }) => done.has(name));
  const covered: Coverage = {
    what: "planted bugs caught",
    bound: "each by at least one tier's small volume",
    count: planted.length,
    of: bugs.length,
    complete,
  };
  const mutated = complete && sitting.volume === "full" ? await mutants(sitting) : nothing;
  const all = [covered, ...mutated.covered];
  return { ...rest, ...mutated, covered: all, planted, resume: complete ? null : [...done] };
}

const rest = { reached: {}, faults: {}, versions: {}, notRun: [] };
const nothing: Pick<TierResult, "covered" | "measured"> = { covered: [] };

/** @throws {ProofFailure} when anything is wrong */
function failFor(wrong: readonly string[], { seed }: Sitting, after: number): void {
  if (wrong.length === 0) return;
  const [name = ""] = /(?<=").*(?=")/.exec(wrong[0] ?? "") ?? [];
  const again = `npm run prove -- --tier P7 --only "${name}" --seed 0x${seed.toString(16)}`;
  throw new ProofFailure(wrong.join("\n"), seed, again, { after });
}

async function mutants(sitting: Sitting): Promise<Pick<TierResult, "covered" | "measured">> {
  const { killed, equivalent, all, survivors } = await mutateCore();
  sitting.say(`${killed} of ${all} mutants of the pure core are killed, ${equivalent} are no change`);
  if (survivors.length > 0) {
    const what = `mutants that no test notices:\n  ${survivors.join("\n  ")}`;
    throw new ProofFailure(what, sitting.seed, "npm run prove -- --tier P7", { after: all });
  }
  const score = ((100 * killed) / all).toFixed(1);
  return {
    covered: [
      {
        what: "mutants of the pure core, made by Stryker, killed by its tests",
        bound: `${core}; ${equivalent} others change nothing`,
        count: killed,
        of: all - equivalent,
        complete: true,
      },
    ],
    measured: [
      `Stryker's mutation score of the pure core is ${score} %: ${killed} of ${all} mutants are killed. ` +
        `The other ${equivalent} change nothing; each is listed with the reason in test/proof/p7-planted/mutants.ts.`,
    ],
  };
}

/** The test command plants a few, others each day. */
function chosen({ volume, seed }: Sitting): readonly Bug[] {
  if (volume === "full") return bugs;
  const draw = drawFrom(seed);
  const quick = bugs.filter(({ tiers }) => tiers[0] === "P1");
  return Array.from({ length: smallCount }, () => draw.pick(quick));
}

/** @throws when no tier has found it, or one could not run */
async function judged(bug: Bug, { volume, seed, say }: Sitting): Promise<PlantedResult> {
  const found: Partial<Record<TierId, number | null>> = {};
  for (const id of volume === "full" ? bug.tiers : bug.tiers.slice(0, 1)) {
    const caught = await catchBug(bug, id, seed);
    if (caught === null) {
      say(`"${bug.name}": there is no ${id} yet`);
      continue;
    }
    const { after, message } = caught;
    found[id] = after;
    say(`"${bug.name}": ${after === null ? `not found by ${id}` : `${id} after ${after}: ${message}`}`);
  }
  const isFound = Object.values(found).some((after) => after !== null);
  if (!isFound) throw new Error(`nobody has found "${bug.name}"`);
  return { name: bug.name, recreates: bug.recreates, found };
}
