/** What is protected here, as every process defines it: the one that is killed, and those that go on. */

import type { LeaseEnd } from "../../../packages/latchkey/src/engine/record.ts";
import { fingerprintOf } from "../../../packages/latchkey/src/fingerprint/fingerprint.ts";
import type {
  Attempt,
  EnqueuingAttempt,
  HandlerContext,
  Latchkey,
  LookedUp,
  Operation,
  OperationOptions,
  OwnedOperation,
  Result,
  StepAttempt,
} from "../../../packages/latchkey/src/index.ts";
import type { Answer } from "../../../packages/latchkey/src/operations/answer.ts";
import {
  defineEffects,
  type Effects,
  type Kind,
  kinds,
  type NoticeName,
  type Outside,
  type Queries,
  question,
  type Sent,
} from "./effects.ts";

export interface Order extends Sent {
  /** What it enqueues. */
  readonly notices: readonly NoticeName[];
}

export interface Surroundings extends Outside {
  /** Who runs; in every answer, so that a second execution has other bytes than the first. */
  readonly by: string;
  /** A step, or a handler, runs now. */
  readonly ran: (step: string, name: string) => void;
  /** Resolves when the lease has been renewed so often. */
  readonly beaten: (times: number) => Promise<void>;
  /** How long the server keeps a transaction that nobody goes on with. */
  readonly transactionLimitMs: number;
}

export interface Works {
  /** One try of a client. @param key its idempotency key; by default what the order is called */
  submit(operation: string, order: Order, key?: string): Promise<Result>;
}

/** How an operation in steps ends: with its last phase, one store call later, or, where it is deferred, with a delivery. */
export type End = "finish" | "return" | "delivery";

export const stepsName = (kind: Kind, end: End, leaseEnd: LeaseEnd) => `steps ${kind} ${end} ${leaseEnd}`;
export const laterName = (kind: Kind, end: End) => `later ${kind} ${end}`;
const tenant = "t";

const brief = { retentionMs: 1_000, forgetAfterMs: 1_000 };
/** Renewed twice within what a test may wait, and kept by a process that is starved for a second. */
const beatingMs = 1_800;

/** What every kind of operation here needs to be defined. */
interface Defining<Tx> {
  readonly latchkey: Latchkey<Tx>;
  readonly around: Surroundings;
  readonly effects: Effects;
}

export function defineWorks<Tx extends Queries>(latchkey: Latchkey<Tx>, around: Surroundings): Works {
  const defining = { latchkey, around, effects: defineEffects(latchkey, around) };
  const bare = bareWorks(defining);
  const owned = new Map([...stepWorks(defining), ...laterWorks(defining)].map((one) => [one.name, one]));
  return {
    async submit(name, order, key = order.name) {
      const submission = {
        key: { tenant, scope: name, key },
        fingerprint: fingerprintOf(name, order),
        principal: null,
      };
      const work = bare.get(name);
      if (work !== undefined) return work(submission, order);
      const operation = owned.get(name);
      if (operation === undefined) throw new TypeError(`no operation ${name}`);
      return latchkey.executeOwned(operation, submission, order);
    },
  };
}

type Submission = Parameters<Latchkey<unknown>["execute"]>[1];
type BareWorks = ReadonlyMap<string, (submission: Submission, order: Order) => Promise<Result>>;

function bareWorks<Tx extends Queries>(defining: Defining<Tx>): BareWorks {
  const { latchkey, around } = defining;
  const { transactionLimitMs } = around;
  const works = new Map<string, (submission: Submission, order: Order) => Promise<Result>>();
  const transaction = (name: string, options: OperationOptions<"transaction">) => {
    const operation = latchkey.operation(name, { execution: "transaction", transactionLimitMs, ...options });
    works.set(name, (submission, order) =>
      latchkey.execute(operation, submission, (context) => place(defining, context, order)),
    );
  };
  const lease = (name: string, deduplicated: boolean, options: OperationOptions<"lease">, beats = 0) => {
    const operation: Operation<"lease"> = latchkey.operation(name, { execution: "lease", ...options });
    works.set(name, (submission, order) =>
      latchkey.execute(operation, submission, async ({ attempt }) => {
        around.ran("sent", order.name);
        await around.beaten(beats);
        return sendByItself(around, attempt, order, deduplicated);
      }),
    );
  };
  transaction("order", {});
  transaction("order, serializable", { isolation: "serializable" });
  transaction("brief", brief);
  lease("bare reconcile", false, {});
  lease("bare lookup", false, { lookup: ({ recordId, input }) => lookUp(around, recordId, input) });
  lease("bare rerun", true, { leaseEnd: "rerun" });
  lease("bare beats", false, { leaseMs: beatingMs }, 2);
  return works;
}

async function place<Tx extends Queries>(
  { around, effects }: Defining<Tx>,
  { tx, attempt }: HandlerContext<Tx, "transaction">,
  { name, notices }: Order,
): Promise<Answer> {
  around.ran("placed", name);
  await insert(around, tx, "placed", name);
  enqueueAll(effects, attempt, name, notices);
  return answerOf(around, attempt, name);
}

function enqueueAll(
  effects: Effects,
  attempt: EnqueuingAttempt,
  name: string,
  notices: readonly NoticeName[],
): void {
  for (const [index, notice] of notices.entries()) {
    const effect = effects.notices.get(notice);
    if (effect === undefined) throw new TypeError(`no effect ${notice}`);
    attempt.enqueue(effect, { name: noticeOf(name, index) }, { aggregate: name });
  }
}

/** What the other side knows the n-th effect of an order by. */
export function noticeOf(name: string, index: number): string {
  return `${name}, ${index}`;
}

let answered = 0;

function answerOf({ by }: Surroundings, { id }: Pick<Attempt, "id">, name: string): Answer {
  answered += 1;
  const headers = [
    ["Location", `/orders/${id}`],
    ["ETag", `"${by}-${answered}"`],
    ["Link", "</orders>; rel=up"],
    ["Link", `</by/${by}>; rel=author`],
  ] as const;
  return { status: 201, headers, body: Buffer.from(`{ "name": "${name}",\n"by": "${by}" }`), omitted: null };
}

/** A handler that calls the other side itself: Latchkey sees nothing of it. */
async function sendByItself(
  around: Surroundings,
  attempt: Attempt,
  order: Order,
  deduplicated: boolean,
): Promise<Answer> {
  const { name } = order;
  await question(around, "send", { name, key: attempt.id, deduplicated, input: JSON.stringify(order) });
  return answerOf(around, attempt, name);
}

/** What an operation's own look-up asks: a route's handler has no input that anybody has kept. */
async function lookUp(around: Surroundings, key: string, input: unknown): Promise<LookedUp> {
  const about = { name: "", key, deduplicated: false, input: JSON.stringify(input) };
  const reply = await question(around, "lookup", about);
  if (reply.kind !== "receipt") return { kind: "still_unknown" };
  return { kind: "completed", answer: { status: 201, body: reply.receipt } };
}

async function insert(
  { pass }: Surroundings,
  tx: Queries,
  table: "placed" | "settled",
  name: string,
): Promise<void> {
  await pass("statement", () => tx.query(`insert into ${table} (name) values ($1)`, [name]));
}

function stepWorks<Tx extends Queries>(defining: Defining<Tx>): readonly OwnedOperation<"lease", Order>[] {
  const { latchkey, around } = defining;
  const { transactionLimitMs } = around;
  return kinds.flatMap((kind) =>
    (["finish", "return"] as const).flatMap((end) =>
      (["resume", "reconcile"] as const).map((leaseEnd) =>
        latchkey.operation(stepsName(kind, end, leaseEnd), {
          execution: "lease",
          version: "1",
          leaseEnd,
          transactionLimitMs,
          run: async (order: Order, attempt: StepAttempt<Tx>) => {
            const settle = await firstSteps(defining, kind, order, attempt);
            if (end === "finish") return attempt.finish("settled", settle);
            return attempt.phase("settled", settle);
          },
        }),
      ),
    ),
  );
}

function laterWorks<Tx extends Queries>(
  defining: Defining<Tx>,
): readonly OwnedOperation<"deferred", Order>[] {
  const { latchkey, around, effects } = defining;
  const { transactionLimitMs } = around;
  const ways = kinds.flatMap((kind) => (["finish", "delivery"] as const).map((end) => ({ kind, end })));
  const define = (name: string, kind: Kind, end: End, options: OperationOptions<"deferred">) =>
    latchkey.operation(name, {
      execution: "deferred",
      version: "1",
      transactionLimitMs,
      ...options,
      run: async (order: Order, attempt) => {
        const settle = await firstSteps(defining, kind, order, attempt);
        if (end === "finish") return attempt.finish("settled", settle);
        await attempt.phase("settled", async (tx) => {
          attempt.enqueue(effects.answers, { name: noticeOf(order.name, order.notices.length) });
          return settle(tx);
        });
        return attempt.answeredBy(effects.answers);
      },
    });
  return [
    ...ways.map(({ kind, end }) => define(laterName(kind, end), kind, end, {})),
    define("brief, later", "provider", "finish", { ...brief, pendingLimitMs: 1_000 }),
  ];
}

/** A phase and a call; what it gives is the last phase. */
async function firstSteps<Tx extends Queries>(
  { around, effects }: Defining<Tx>,
  kind: Kind,
  { name, notices }: Order,
  attempt: StepAttempt<Tx>,
) {
  const id = await attempt.phase("placed", async (tx) => {
    around.ran("placed", name);
    await insert(around, tx, "placed", name);
    return attempt.id;
  });
  const effect = effects.calls.get(kind);
  if (effect === undefined) throw new TypeError(kind);
  const { receipt } = await attempt.call("called", effect, { name });
  return async (tx: Tx) => {
    around.ran("settled", name);
    await insert(around, tx, "settled", name);
    enqueueAll(effects, attempt, name, notices);
    answered += 1;
    const headers = {
      location: `/orders/${id}`,
      link: ["</orders>; rel=up", `</by/${around.by}>; rel=author`],
    };
    return { status: 201, headers, body: { name, id, receipt, by: around.by, answered } };
  };
}
