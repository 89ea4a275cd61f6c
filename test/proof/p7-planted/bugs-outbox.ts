/** Mistakes in the outbox and its dispatcher, and in cleaning. */
import type { Bug } from "./bug.ts";

export const outboxBugs: readonly Bug[] = [
  {
    name: "an effect is enqueued although its transaction was lost",
    recreates: "wolverine #1677: handler data and outbox in two commits",
    changes: [
      {
        file: "stores/memory/transactions.ts",
        find: 'if (record === null) return { kind: "lost", value };',
        replace:
          'if (record === null) { const now = state.rows.record(life); if (now !== null) enqueue(state.effects, now, effects, state.now()); return { kind: "lost", value }; }',
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "an effect without any way to find out is sent again",
    recreates: "CAP #1144, wolverine #565: everything is sent again after a crash",
    changes: [
      {
        file: "outbox/next-delivery.ts",
        find: '      case "none":\n        return { kind: "die", errorCode: "call-in-doubt" };\n      case "lookup":\n        return { kind: "look_up" };',
        replace:
          '      case "none":\n        break;\n      case "lookup":\n        return { kind: "look_up" };',
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "an effect in doubt is sent again without a look-up",
    recreates: "MassTransit #3791: messages are published twice",
    changes: [
      {
        file: "outbox/next-delivery.ts",
        find: '        return { kind: "look_up" };',
        replace: "        break;",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "a claim that was lost still ends its effect",
    recreates: "river #1302",
    changes: [
      {
        file: "stores/memory/outbox-ends.ts",
        find: "if (row === null || row.leaseEndsAt === null || !sameFence(row.effect.fence, fence)) return null;",
        replace: "if (row === null || row.leaseEndsAt === null) return null;",
      },
    ],
    tiers: ["P1", "P2", "P3"],
  },
  {
    name: "a claim is rescued while its lease runs",
    recreates: "CAP #1419: a row is swept while its owner works",
    changes: [
      {
        file: "stores/memory/outbox.ts",
        find: ".filter(({ leaseEndsAt }) => now >= leaseEndsAt)",
        replace: ".filter(({ leaseEndsAt }) => now + 3_600_000 >= leaseEndsAt)",
      },
    ],
    tiers: ["P1", "P2", "P3"],
  },
  {
    name: "order within an aggregate is not kept",
    recreates: "graphile-worker #621: a batch claim breaks a named queue",
    changes: [
      {
        file: "stores/memory/outbox.ts",
        find: ".filter(({ effect }) => !effect.ordered || heads.has(effect.id))",
        replace: "",
      },
    ],
    tiers: ["P2", "P3"],
  },
  {
    name: "the start of a send is not written",
    recreates: null,
    changes: [
      {
        file: "stores/memory/outbox.ts",
        find: 'return { ...effect, state: "started", sends: effect.sends + 1, doubtfulSince };',
        replace: 'return { ...effect, state: "started", doubtfulSince: null };',
      },
    ],
    tiers: ["P1", "P2", "P3"],
  },
  {
    name: "the cleaner forgets what is unknown",
    recreates: null,
    changes: [
      {
        file: "stores/memory/sweeps.ts",
        find: '(record) => record.state === "expired" && now >= record.forgetAt && !undelivered.has(record.id),',
        replace:
          '(record) => record.state === "unknown" || (record.state === "expired" && now >= record.forgetAt && !undelivered.has(record.id)),',
      },
      { file: "stores/memory/sweeps.ts", find: '    move(record.state, "forget", "none");\n', replace: "" },
    ],
    tiers: ["P2", "P3"],
  },
  {
    name: "the cleaner forgets records with undelivered effects",
    recreates: null,
    changes: [
      {
        file: "stores/memory/sweeps.ts",
        find: " && !undelivered.has(record.id),",
        replace: ",",
      },
    ],
    tiers: ["P2", "P3"],
  },
];
