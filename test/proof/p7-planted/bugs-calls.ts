/** Mistakes around calls to others, and what is not known of them. */
import type { Bug } from "./bug.ts";

export const callBugs: readonly Bug[] = [
  {
    name: "the downstream key changes with every attempt",
    recreates: "mastra #13629, restate #1723: the id was built from the wrong field",
    changes: [
      {
        file: "execution/steps/call-sends.ts",
        find: "const asking = { effect, key: intent.downstreamKey, signal: run.held.signal };",
        replace:
          "const asking = { effect, key: `${intent.downstreamKey}${run.held.record().fence.attempt}`, signal: run.held.signal };",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "an error of the other side proves that nothing happened",
    recreates: "rocket-rides-atomic: any provider error is final",
    changes: [
      {
        file: "effects/run-effect.ts",
        find: 'const proven = hasCode(error, "not-executed") || says(settings.isNotExecuted, error);',
        replace: "const proven = true;",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "a call in doubt is made again without a look-up",
    recreates: null,
    changes: [
      {
        file: "execution/steps/call-ends.ts",
        find: 'if (effect.settings.deduplication === "provider") return { kind: "again", error: sent.error };',
        replace: 'if (effect.settings.deduplication !== "none") return { kind: "again", error: sent.error };',
      },
      {
        // Without a provider there is no window, which would be taken for one that is over.
        file: "execution/steps/call-sends.ts",
        find: "if (progress.inDoubt && windowIsOver(",
        replace: "if (effect.settings.dedupeWindowMs !== null && progress.inDoubt && windowIsOver(",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "a look-up that finds nothing frees the key",
    recreates: "the zombie calls after the key was freed",
    changes: [
      {
        file: "workers/look-up-outcome.ts",
        find: '    case "not_found":\n      return { kind: "ask_later" };',
        replace:
          '    case "not_found":\n      return { kind: "settle", settlement: { event: "settle_not_executed", calls: "never-happened", reopen: null, resumeAfterMs: 0 }, proof: "not-found" };',
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "a call that was closed is made again under the same key",
    recreates: null,
    changes: [
      {
        file: "stores/memory/settlement.ts",
        find: 'return { ...step, state: "not_executed", generation: generation + 1, downstreamKey, sends: 0 };',
        replace: 'return { ...step, state: "not_executed", generation: generation + 1, sends: 0 };',
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "the generation is raised whatever closing says",
    recreates: null,
    changes: [
      {
        file: "workers/look-up-outcome.ts",
        find: "      return happened(runtime, record, started, looked.value);",
        replace: "      return reopenCall(record, started);",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "a call that nobody can look up goes on by itself",
    recreates: null,
    changes: [
      {
        file: "workers/look-up-outcome.ts",
        find: '    case "none":\n      return { kind: "person", because: "call-in-doubt" };',
        replace:
          '    case "none":\n      return { kind: "settle", settlement: { event: "settle_not_executed", calls: "never-happened", reopen: null, resumeAfterMs: 0 }, proof: "none" };',
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "the provider's window for a key is not looked at",
    recreates: null,
    changes: [
      {
        file: "effects/dedupe-window.ts",
        find: "return now - since + settings.limits.timeoutMs >= (settings.dedupeWindowMs ?? 0);",
        replace: "return false;",
      },
    ],
    tiers: ["P2"],
  },
  {
    name: "the start of a call is not written",
    recreates: null,
    changes: [
      {
        file: "stores/memory/journal.ts",
        find: "if (step !== there) writeStep(rows, row, step);",
        replace: "",
      },
      {
        file: "stores/memory/journal.ts",
        find: 'if (row === null || step?.kind !== "call" || step.generation !== generation) return false;',
        replace:
          'if (row === null) return false; if (step === undefined) return true; if (step.kind !== "call" || step.generation !== generation) return false;',
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "what a finished step gave is forgotten when an attempt is resumed",
    recreates: "inngest #2775: a step ran more than once",
    changes: [
      {
        file: "stores/memory/journal.ts",
        find: "const steps = [...life.steps].sort((left, right) => left.position - right.position);",
        replace: 'const steps = [...life.steps].filter(({ kind }) => kind !== "phase");',
      },
    ],
    tiers: ["P1", "P2"],
  },
];
