/**
 * Every schedule of two owners and the lease-rescuer over the memory store, with the production code: which store call
 * comes next, at most one mishap, at most one lease that ends meanwhile.
 */
import { describe, expect, test } from "vitest";
import { type Answer, decodeAnswer } from "../../packages/latchkey/src/attempt/answer.ts";
import type { Result } from "../../packages/latchkey/src/attempt/attempt.ts";
import { explore } from "./explore.ts";
import type { Bounds, Ending, World } from "./world.ts";

/** Late writes around a lease that ends quadruple the states: with LATCHKEY_PROVE=1 only. */
const isProof = process.env.LATCHKEY_PROVE === "1";

const bounds: Bounds = {
  execution: "lease",
  options: {},
  owners: ["<A>", "<B>"],
  mishaps: ["crash", "request_lost", "reply_lost", ...(isProof ? (["late"] as const) : [])],
  mishapsMax: 1,
  leaseEndsMax: 1,
};

/** The answers that callers were given as the truth. */
function givenAnswers(endings: readonly Pick<Ending, "result">[]): string[] {
  return endings.flatMap(({ result }) =>
    result.kind === "replay" || (result.kind === "executed" && result.stored) ? [textOf(result.answer)] : [],
  );
}

function textOf({ body }: Answer): string {
  return Buffer.from(body).toString();
}

/** What holds at the end of every schedule, whatever the execution. */
async function expectConsistent(world: World): Promise<Result> {
  const given = givenAnswers(world.endings);
  for (const { result } of world.endings) {
    if (result.kind === "threw") expect(result.code).toBe("store-unavailable");
  }
  const record = await world.record();
  if (record?.state === "completed" && record.answer !== null) {
    const owner = textOf(decodeAnswer(record.answer));
    expect(record.fence.token, "an answer is stored by the owner of the attempt").toContain(owner);
  }
  const last = await world.aftermath();
  const answers = new Set([...given, ...givenAnswers([{ result: last }])]);
  expect(answers.size, "everybody hears the same answer").toBeLessThanOrEqual(1);
  expect(["executed", "replay", "unknown"], "the key is not stuck").toContain(last.kind);
  if (given.length > 0) expect(last.kind, "an answer that was given is not lost").toBe("replay");
  return last;
}

/** Explores, prints what was covered, and fails when something that can happen never did. */
async function exploreAll(
  name: string,
  given: Bounds,
  check: (world: World) => Promise<Result>,
  reachable: readonly string[],
): Promise<void> {
  const reached = new Map<string, number>();
  const count = (what: string) => reached.set(what, (reached.get(what) ?? 0) + 1);
  const startedMs = performance.now();
  const { schedules, states } = await explore(given, async (world) => {
    for (const { result } of world.endings) count(result.kind);
    count(`then ${(await check(world)).kind}`);
  });
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const ends = [...reached].map(([what, times]) => `${what} ${times}`).join(", ");
  process.stdout.write(`${name}: ${schedules} schedules, ${states} states, ${seconds} s (${ends})\n`);
  expect([...reached.keys()]).toEqual(expect.arrayContaining([...reachable]));
}

async function checkReconcile(world: World): Promise<Result> {
  const before = world.effects;
  const last = await expectConsistent(world);
  expect(world.effects, "nothing happens twice").toBeLessThanOrEqual(1);
  if (before > 0) expect(last.kind, "what has happened does not run again").not.toBe("executed");
  return last;
}

async function checkRerun(world: World): Promise<Result> {
  const last = await expectConsistent(world);
  expect(last.kind, "nobody has to be asked").not.toBe("unknown");
  return last;
}

async function checkTransaction(world: World): Promise<Result> {
  const before = world.rows();
  const last = await expectConsistent(world);
  expect(world.rows(), "nothing is committed twice").toBeLessThanOrEqual(1);
  if (before > 0) expect(last.kind, "what is committed does not run again").toBe("replay");
  return last;
}

const rerun: Bounds = { ...bounds, options: { leaseEnd: "rerun" }, mishaps: ["crash", "reply_lost"] };
const late: Bounds = { ...bounds, mishaps: ["late"], mishapsMax: 2, leaseEndsMax: 0 };
const transaction: Bounds = {
  ...bounds,
  execution: "transaction",
  mishaps: ["crash", "request_lost", "reply_lost", "late"],
  mishapsMax: 2,
  leaseEndsMax: 0,
};

/** Seconds on an idle machine; others may be using it too. */
const timeout = 120_000;

test("a lease under reconcile: nothing happens twice, all hear the same", { timeout }, async () => {
  const reachable = [
    "executed",
    "replay",
    "in_progress",
    "unknown",
    "commit_in_doubt",
    "threw",
    "then unknown",
  ];
  await exploreAll("lease, reconcile", bounds, checkReconcile, reachable);
});

test("a lease whose writes come late: nothing happens twice, all hear the same", { timeout }, async () => {
  await exploreAll("lease, late writes", late, checkReconcile, ["executed", "replay", "in_progress"]);
});

test("a lease under rerun: it may happen again, and all hear the same", { timeout }, async () => {
  await exploreAll("lease, rerun", rerun, checkRerun, ["executed", "replay", "in_progress", "then executed"]);
});

test("a transaction: nothing is committed twice, all hear the same", { timeout }, async () => {
  const reachable = ["executed", "replay", "in_progress", "commit_in_doubt", "threw", "then executed"];
  await exploreAll("transaction", transaction, checkTransaction, reachable);
});

test("a transaction whose lock is lost: the guard alone is enough", { timeout }, async () => {
  const unlocked: Bounds = {
    ...transaction,
    mishapsMax: 1,
    plant: ({ transactions }) => ({
      transactions: transactions && {
        ...transactions,
        run: (request, work) => transactions.run(request, (open) => work({ ...open, exclusive: true })),
      },
    }),
  };
  await exploreAll("transaction, lock lost", unlocked, checkTransaction, ["executed", "replay"]);
});

describe("a planted mistake is found", () => {
  const planted: readonly (readonly [string, Bounds, (world: World) => Promise<Result>])[] = [
    [
      "an ended lease frees its key",
      {
        ...bounds,
        plant: (store) => ({
          giveUp: async (key, guard) =>
            (await store.end(key, guard.id, guard.fence, { event: "release" })) !== null,
        }),
      },
      checkReconcile,
    ],
    [
      "the end of an attempt is written without its fence",
      {
        ...rerun,
        plant: (store) => ({
          async end(key, _id, _fence, end) {
            const { record } = await store.read(key);
            return record === null ? null : store.end(key, record.id, record.fence, end);
          },
        }),
      },
      checkRerun,
    ],
    [
      "a COMMIT in doubt is taken for committed",
      {
        ...transaction,
        plant: ({ transactions }) => ({
          transactions: transactions && { ...transactions, resolve: async () => "committed" as const },
        }),
      },
      checkTransaction,
    ],
  ];
  test.each(planted)("%s", { timeout }, async (_what, given, check) => {
    await expect(explore(given, async (world) => void (await check(world)))).rejects.toThrow("Schedule: ");
  });
});
