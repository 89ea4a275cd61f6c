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

export const tier: Tier = {
  id: "P7",
  title: "planted bugs",
  about:
    "Mistakes that one could make in this code, and that others have made in theirs, are planted one at a time into the library's source as it is loaded; the small volume of another tier then has to find each. A bug that no tier finds fails this one.",
  run,
};

const smallCount = 2;

async function run(sitting: Sitting): Promise<TierResult> {
  const only = process.env.LATCHKEY_PROOF_ONLY;
  delete process.env.LATCHKEY_PROOF_ONLY;
  const done = new Set(Array.isArray(sitting.resume) ? sitting.resume.map(String) : []);
  const wanted = only === undefined ? chosen(sitting) : bugs.filter(({ name }) => name.includes(only));
  const planted: PlantedResult[] = [];
  const missed: string[] = [];
  for (const bug of wanted) {
    if (done.has(bug.name)) continue;
    if (performance.now() >= sitting.untilMs) break;
    const result = await judged(bug, sitting);
    if (Object.values(result.found).every((after) => after === null)) missed.push(bug.name);
    else planted.push(result);
    done.add(bug.name);
  }
  if (missed.length > 0) {
    const [first] = missed;
    const again = `npm run prove -- --tier P7 --only "${first}" --seed 0x${sitting.seed.toString(16)}`;
    const what = `nobody has found: ${missed.join("; ")}`;
    throw new ProofFailure(what, sitting.seed, again, { after: wanted.length });
  }
  const complete = bugs.every(({ name }) => done.has(name));
  const covered: Coverage = {
    what: "planted bugs caught",
    bound: "each by at least one tier's small volume",
    count: planted.length,
    of: bugs.length,
    complete,
  };
  return { ...rest, covered: [covered], planted, resume: complete ? null : [...done] };
}

const rest = { reached: {}, faults: {}, versions: {}, notRun: [], notShown: [] };

/** The test command plants a few, others each day. */
function chosen({ volume, seed }: Sitting): readonly Bug[] {
  if (volume === "full") return bugs;
  const draw = drawFrom(seed);
  const quick = bugs.filter(({ tiers }) => tiers[0] === "P1");
  return Array.from({ length: smallCount }, () => draw.pick(quick));
}

async function judged(bug: Bug, { volume, seed, say }: Sitting): Promise<PlantedResult> {
  const found: Partial<Record<TierId, number | null>> = {};
  for (const id of volume === "full" ? bug.tiers : bug.tiers.slice(0, 1)) {
    const { after, said } = await catchBug(bug, id, seed);
    found[id] = after;
    say(`"${bug.name}": ${after === null ? `not found by ${id}` : `${id} after ${after}: ${said}`}`);
  }
  return { name: bug.name, recreates: bug.recreates, found };
}
