/** P0: the protocol as a model, every state of it. The code is not in it: that is what the other tiers run. */
import { debianTool } from "../../support/debian-tools.ts";
import { type Coverage, ProofFailure, type Sitting, type Tier, type TierResult } from "../harness/tier.ts";
import { checkModel, spinVersion } from "./check-model.ts";
import { type Variant, variants } from "./variants.ts";

interface Bound {
  readonly words: string;
  readonly switches: readonly string[];
  /** The compiler takes longer than a small verifier runs. */
  readonly optimize: "-O0" | "-O1";
}

const usual: Bound = {
  words: "2 owners with 2 tries each, a last client; 2 crashes, 3 lease ends, 4 generations of the key",
  switches: [],
  optimize: "-O0",
};
const wide: Bound = {
  words: "3 owners with 2 tries each, a last client; 2 crashes, 3 lease ends, 4 generations of the key",
  switches: ["OWNERS=3"],
  optimize: "-O1",
};

export const tier: Tier = {
  id: "P0",
  run,
};

async function run(sitting: Sitting): Promise<TierResult> {
  const spin = await debianTool("spin");
  if (spin === null) return notRun("spin is not installed, and cannot be had");
  const only = process.env.LATCHKEY_PROOF_ONLY ?? "";
  const covered: Coverage[] = [];
  for (const [variant, bound] of plan(sitting.volume)) {
    if (!variant.name.includes(only)) continue;
    const { states, failure } = await checkModel(
      spin,
      [...variant.switches, ...bound.switches],
      bound.optimize,
    );
    judge(variant, states, failure);
    sitting.say(
      `${variant.name}: ${states} states${failure === null ? "" : `, fails as it must: ${failure}`}`,
    );
    const what = variant.fails === null ? "states" : "states until it fails";
    covered.push({
      what: `${what}: ${variant.name}`,
      bound: bound.words,
      count: states,
      of: "all",
      complete: true,
    });
  }
  return { ...empty, covered, versions: { spin: await spinVersion(spin) } };
}

function plan(volume: Sitting["volume"]): readonly (readonly [Variant, Bound])[] {
  const everyUsual = variants.map((variant) => [variant, usual] as const);
  if (volume === "small") return everyUsual;
  const everyWide = variants.filter(({ fails }) => fails === null).map((variant) => [variant, wide] as const);
  return [...everyUsual, ...everyWide];
}

function judge({ name, fails }: Variant, states: number, failure: string | null): void {
  const isRight = fails === null ? failure === null : failure?.includes(fails) === true;
  if (isRight) return;
  const expected = fails === null ? "holds" : `fails at ${fails}`;
  throw new ProofFailure(
    `"${name}" ${expected}; Spin says: ${failure ?? "no error"}`,
    0n,
    `npm run prove -- --tier P0 --only "${name}"`,
    { after: states },
  );
}

const empty = {
  reached: {},
  faults: {},
  versions: {},
  notRun: [],
  resume: null,
};

function notRun(reason: string): TierResult {
  return { ...empty, covered: [], notRun: [{ what: "P0, the Spin model", reason }] };
}
