/** Takes every edge of the edge table through the code that really takes it, on every execution that has it, and expects its event. */
import { expect, test } from "vitest";
import {
  setUp as deferredWorld,
  leaseMs,
  never,
  quick,
  threeSteps,
  type Work,
} from "../../../../test/support/deferred-world.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { edges } from "../engine/edges.ts";
import type { RecordState } from "../engine/record.ts";
import { LatchkeyError, NotExecuted } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import type { OperationOptions } from "../operations/operation.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import { leaseRescuer } from "../workers/lease-rescuer.ts";
import { recordCleaner } from "../workers/record-cleaner.ts";
import { type EdgeName, edgeEvents } from "./edge-events.ts";
import type { LatchkeyEvent } from "./events.ts";

type Tx = MemoryTransaction;
type State = RecordState | "none";
const day = 24 * 60 * 60 * 1_000;
const operator = { operator: "ada", reason: "asked" };
const throws = (error: unknown) => () => Promise.reject(error);
const inDoubt = throws(new Error("socket hang up"));

const frozen = { renew: () => new Promise<boolean>(() => {}) };
/** Acts like a bridge whose rollback finds that the handler has ended the transaction. */
const losing = (store: Store<Tx>): Partial<Store<Tx>> => {
  const { transactions } = store;
  if (transactions === null) return {};
  const run: typeof transactions.run = async (request, work) => {
    const outcome = await transactions.run(request, work);
    if (request.savepoint === false && outcome.kind === "rolled_back" && ranHandler(outcome.value)) {
      throw new LatchkeyError("transaction-changed");
    }
    return outcome;
  };
  return { transactions: { ...transactions, run } };
};
const ranHandler = (value: unknown) => (value as { readonly kind?: string }).kind === "threw";

/** Processes over one store, each with its own definition of one operation. */
function world() {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const events: LatchkeyEvent[] = [];
  const start = (options: OperationOptions<"lease">, wrap: Partial<Store<Tx>> = {}) => {
    const store = { ...memory, ...wrap };
    const onEvent = (event: LatchkeyEvent) => events.push(event);
    const latchkey = createLatchkey<Tx>({ store, ports, onEvent, circuitBreaker: false });
    const operation = latchkey.operation("op", options);
    const run = async (work: () => Promise<unknown> = async () => 1) => {
      void latchkey.run(operation, { tenant: "t", key: "k", input: 1 }, work).catch(() => {});
      await ports.clock.advance(200);
    };
    const settle = async (how: Parameters<typeof latchkey.settle>[1]) => {
      const record = (await memory.read({ tenant: "t", scope: "op", key: "k" })).record;
      return latchkey.settle({ recordId: record?.id ?? "" }, how, operator);
    };
    return { latchkey, run, settle, rescue: () => leaseRescuer(latchkey).runOnce() };
  };
  const state = async (): Promise<State> =>
    (await memory.read({ tenant: "t", scope: "op", key: "k" })).record?.state ?? "none";
  return { ports, memory, events, start, state, pass: (ms: number) => ports.clock.advance(ms) };
}

/** Definitions for three executions, and for changes from one release to the next. */
const inTransaction = { execution: "transaction", writes: "none" } as unknown as OperationOptions<"lease">;
const underLease = { execution: "lease", leaseMs } as const;
const rerun = { ...underLease, leaseEnd: "rerun" } as const;

interface Walk {
  readonly edge: EdgeName;
  readonly how: string;
  /** Takes the edge last; returns the events since just before it. */
  go(): Promise<{ readonly events: readonly LatchkeyEvent[]; readonly state: State }>;
}

type World = ReturnType<typeof world>;
/** `lead` brings the record to the edge, `last` takes it. */
function bare<T>(
  edge: EdgeName,
  how: string,
  lead: (made: World) => Promise<T>,
  last: (led: T, made: World) => Promise<unknown>,
): Walk {
  return {
    edge,
    how,
    async go() {
      const made = world();
      const led = await lead(made);
      made.events.length = 0;
      await last(led, made);
      return { events: made.events, state: await made.state() };
    },
  };
}

async function unknown(made: World) {
  await made.start(underLease).run(inDoubt);
  return made.start(underLease);
}
async function retryable(made: World) {
  await (await unknown(made)).settle({ notExecuted: operator });
}
async function dead(made: World, options: OperationOptions<"lease">) {
  void made.start(options, frozen).run(never);
  await made.pass(leaseMs + 200);
}

type Deferred = ReturnType<typeof deferredWorld>;
function deferred(
  edge: EdgeName,
  how: string,
  work: Work,
  go: (process: ReturnType<Deferred["start"]>, made: Deferred, forget: () => void) => Promise<unknown>,
  options: Parameters<typeof deferredWorld>[0] = {},
): Walk {
  return {
    edge,
    how,
    async go() {
      const made = deferredWorld(options);
      const forget = () => {
        made.events.length = 0;
      };
      await go(made.start(work), made, forget);
      const record = await made.record();
      return { events: made.events, state: record?.state ?? "none" };
    },
  };
}

const failing: Work = async () => Promise.reject(new Error("not yet"));
const answered: Work = async (attempt, { notify }) => {
  await attempt.phase("asked", async () => attempt.enqueue(notify, { to: "a" }));
  return attempt.answeredBy(notify);
};

const walks: readonly Walk[] = [
  bare(
    "none commit",
    "transaction",
    async (made) => made.start(inTransaction),
    ({ run }) => run(),
  ),
  bare("retryable commit", "transaction", retryable, (_, made) => made.start(inTransaction).run()),
  bare(
    "none lose_transaction",
    "transaction",
    async (made) => made.start(inTransaction, losing(made.memory)),
    ({ run }) => run(inDoubt),
  ),
  bare("retryable lose_transaction", "transaction", retryable, (_, made) =>
    made.start(inTransaction, losing(made.memory)).run(inDoubt),
  ),
  bare(
    "none admit",
    "lease",
    async (made) => made.start(underLease),
    ({ run }) => run(never),
  ),
  bare(
    "in_progress complete",
    "lease",
    async (made) => made.start(underLease),
    ({ run }) => run(),
  ),
  bare(
    "in_progress release",
    "lease",
    async (made) => made.start(underLease),
    ({ run }) => run(throws(new NotExecuted())),
  ),
  bare(
    "in_progress doubt",
    "lease",
    async (made) => made.start(underLease),
    ({ run }) => run(inDoubt),
  ),
  bare(
    "in_progress give_up",
    "lease, a request",
    (made) => dead(made, underLease),
    (_, made) => made.start(underLease).run(),
  ),
  bare(
    "in_progress give_up",
    "lease, the rescuer",
    (made) => dead(made, underLease),
    (_, made) => made.start(underLease).rescue(),
  ),
  bare(
    "in_progress give_up",
    "transaction",
    (made) => dead(made, underLease),
    (_, made) => made.start(inTransaction).run(),
  ),
  bare(
    "in_progress take_over",
    "lease, bare rerun",
    (made) => dead(made, rerun),
    (_, made) => made.start(rerun).run(never),
  ),
  bare("retryable take_over", "lease", retryable, (_, made) => made.start(underLease).run(never)),
  bare("unknown settle_completed", "lease", unknown, ({ settle }) =>
    settle({ completed: { status: 200, body: 1 } }),
  ),
  bare("unknown settle_failed", "lease", unknown, ({ settle }) =>
    settle({ failed: { status: 409, body: 1 } }),
  ),
  bare("unknown settle_not_executed", "lease", unknown, ({ settle }) => settle({ notExecuted: operator })),
  bare("completed purge", "cleaner", completedFor(2 * day), cleanAfter(day)),
  bare("expired forget", "cleaner", expired, cleanAfter(day)),
  deferred("none accept", "deferred", quick, ({ submit }) => submit()),
  deferred("pending claim", "deferred", quick, async ({ submit, workOff }, _, forget) => {
    await submit();
    forget();
    await workOff();
  }),
  deferred("pending abandon", "cleaner", quick, async ({ submit, latchkey }, { ports }) => {
    await submit();
    await ports.clock.advance(day);
    await recordCleaner(latchkey).runOnce();
  }),
  deferred("in_progress complete", "deferred", quick, async ({ submit, workOff }) => {
    await submit();
    await workOff();
  }),
  deferred("in_progress advance", "deferred", threeSteps, async ({ submit, workOff }, made) => {
    await submit();
    await made.inTime(workOff());
  }),
  deferred("in_progress retry_later", "deferred", failing, async ({ submit, workOff }) => {
    await submit();
    await workOff();
  }),
  deferred("retryable take_over", "deferred", failing, async ({ submit, workOff, rescuer }, made, forget) => {
    await submit();
    await workOff();
    await made.ports.clock.advance(60_000);
    forget();
    await made.inTime(rescuer.runOnce());
  }),
  deferred("in_progress take_over", "deferred", quick, async ({ submit, claim, rescuer }, made, forget) => {
    await submit();
    await claim();
    await made.ports.clock.advance(leaseMs);
    forget();
    await made.inTime(rescuer.runOnce());
  }),
  deferred(
    "in_progress fail",
    "deferred",
    failing,
    async ({ submit, workOff }) => {
      await submit();
      await workOff();
    },
    { options: { attemptsMax: 1 } },
  ),
  deferred("failed purge", "cleaner", failing, failedThenCleaned, { options: { attemptsMax: 1 } }),
  deferred("retryable deliver_answer", "deferred", answered, async (process, made) => {
    await process.submit();
    await process.workOff();
    await made.inTime(process.dispatcher.runOnce());
  }),
  deferred(
    "in_progress doubt",
    "deferred",
    threeSteps,
    async ({ submit, workOff }, made) => {
      await submit();
      await made.inTime(workOff());
    },
    { kind: "none", send: () => "lost_after" },
  ),
  deferred(
    "unknown settle_call",
    "deferred",
    threeSteps,
    async ({ submit, workOff, latchkey }, made) => {
      await submit();
      await made.inTime(workOff());
      const target = { recordId: (await made.record())?.id ?? "" };
      await latchkey.settle(target, { call: "charged", result: { id: "c" } }, operator);
    },
    { kind: "none", send: () => "lost_after" },
  ),
];

function completedFor(forgetAfterMs: number) {
  return async (made: World) => {
    const process = made.start({ ...underLease, retentionMs: day, forgetAfterMs });
    await process.run();
    return process;
  };
}
async function expired(made: World) {
  const process = await completedFor(2 * day)(made);
  await cleanAfter(day)(process, made);
  return process;
}
function cleanAfter(ms: number) {
  return async ({ latchkey }: ReturnType<World["start"]>, made: World) => {
    await made.pass(ms);
    await recordCleaner(latchkey).runOnce();
  };
}
async function failedThenCleaned(process: ReturnType<Deferred["start"]>, { ports }: Deferred) {
  await process.submit();
  await process.workOff();
  await ports.clock.advance(day);
  await recordCleaner(process.latchkey).runOnce();
}

test("these tests take every edge of the table", () => {
  const walked = new Set<string>(walks.map(({ edge }) => edge));
  expect(edges.map(({ from, event }) => `${from} ${event}`).filter((edge) => !walked.has(edge))).toEqual([]);
});

test.each(walks)("$edge ($how) is reported", async ({ edge, go }) => {
  const { events, state } = await go();
  const wanted = edgeEvents[edge];
  const found = events.filter(({ type }) => type === wanted);
  expect(found, `reported: ${events.map(({ type }) => type).join(", ")}`).not.toEqual([]);
  if (wanted === "cleaned") expect(found).toContainEqual(expect.objectContaining(cleanedBy(edge)));
  else expect(found.at(-1)).toMatchObject({ recordId: expect.any(String), keyHash: expect.any(String) });
  const { to } = edges.find(({ from, event }) => `${from} ${event}` === edge) ?? { to: null };
  if (isLast(edge)) expect(state).toBe(to);
});

/** After these edges the record has moved on by the time it is read. */
function isLast(edge: EdgeName): boolean {
  const passed: readonly EdgeName[] = [
    "pending claim",
    "pending abandon",
    "in_progress advance",
    "in_progress take_over",
    "retryable take_over",
    "failed purge",
    "completed purge",
  ];
  return !passed.includes(edge);
}

function cleanedBy(edge: EdgeName) {
  if (edge === "pending abandon") return { abandoned: 1 };
  return edge === "expired forget" ? { forgotten: 1 } : { purged: 1 };
}
