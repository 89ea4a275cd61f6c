/** The business that the servers run: one operation for each way to execute, each with rows that no constraint guards. */
import { setTimeout as pause } from "node:timers/promises";
import type {
  Effect,
  EffectOptions,
  Latchkey,
  Operation,
  OwnedOperation,
  RunAnswer,
  StepAttempt,
} from "../../../packages/latchkey/src/index.ts";
import { EffectRefused } from "../../../packages/latchkey/src/index.ts";
import type { Receipt, Send } from "./downstream.ts";
import type { Body, Route } from "./history.ts";
import type { Plant } from "./plants.ts";

/** Anything with `query`: a pool, a transaction. */
export interface Queries {
  query(text: string, values: unknown[]): Promise<unknown>;
}

export interface Order {
  readonly route: Route;
  readonly tenant: string;
  readonly key: string;
  readonly body: Body;
  /** How long the business takes. */
  readonly workMs: number;
}

export interface Surroundings {
  readonly downstreamUrl: string;
  readonly leaseMs: number;
  readonly server: string;
  /** A name for one run of the business's code. */
  readonly nextExecution: () => string;
  readonly plant: Plant | null;
}

export interface Business<Tx> {
  readonly pay: Operation<"transaction">;
  readonly order: Operation<"transaction">;
  readonly grab: Operation<"lease">;
  readonly charge: OwnedOperation<"lease", Order>;
  readonly report: OwnedOperation<"deferred", Order>;
  /** Enqueued by `order` and by `report`. */
  readonly notice: Effect<Notice, Receipt>;
  /** Enqueued by `order`; its other side recognises nothing. */
  readonly ping: Effect<Notice, Receipt>;
  readonly surroundings: Surroundings;
  /** Never called. */
  readonly tx?: Tx;
}

interface Notice {
  readonly name: string;
  readonly input: string;
}

const dayMs = 24 * 60 * 60 * 1000;
/** Of what is gone on with: an epoch kills more often than a service would. */
const attemptsMax = 1_000;

export function defineBusiness<Tx extends Queries>(
  latchkey: Latchkey<Tx>,
  surroundings: Surroundings,
): Business<Tx> {
  const { leaseMs, plant } = surroundings;
  const charged = latchkey.effect("charged", provider<Tx>(surroundings, false));
  const asked = latchkey.effect("asked", closing<Tx>(surroundings));
  const notice = latchkey.effect("notice", provider<Tx>(surroundings, true));
  const ping = latchkey.effect("ping", careless<Tx>(surroundings));
  const transaction = { execution: "transaction", transactionLimitMs: 4_000 } as const;
  const leased = { leaseMs, attemptLimitMs: 8_000, attemptsMax, version: "1" } as const;
  return {
    surroundings,
    notice,
    ping,
    pay: latchkey.operation("pay", { ...transaction, waitMs: 300 }),
    order: latchkey.operation("order", transaction),
    grab: latchkey.operation("grab", {
      execution: "lease",
      leaseMs,
      attemptLimitMs: 8_000,
      leaseEnd: plant === "frees-ended-leases" ? "rerun" : "reconcile",
      attemptsMax,
    }),
    charge: latchkey.operation("charge", {
      ...leased,
      execution: "lease",
      leaseEnd: "resume",
      run: (order: Order, attempt: StepAttempt<Tx>) => inSteps(order, attempt, charged, notice, surroundings),
    }),
    report: latchkey.operation("report", {
      ...leased,
      execution: "deferred",
      run: (order: Order, attempt) => inSteps(order, attempt, asked, notice, surroundings),
    }),
  };
}

/** A phase, a call, and a phase that ends it. */
async function inSteps<Tx extends Queries>(
  order: Order,
  attempt: StepAttempt<Tx>,
  effect: Effect<Notice, Receipt>,
  notice: Effect<Notice, Receipt>,
  { nextExecution }: Surroundings,
): Promise<RunAnswer> {
  const execution = await attempt.phase("placed", async (tx) => {
    const own = nextExecution();
    await insert(tx, "business", order, own);
    await pause(order.workMs);
    return own;
  });
  const { id } = await attempt.call("called", effect, noticeOf(order, "call"));
  return attempt.finish("settled", async (tx) => {
    const settled = nextExecution();
    await insert(tx, "settled", order, settled);
    attempt.enqueue(notice, noticeOf(order, "notice"));
    return answerOf(order, { execution, settled, receipt: id });
  });
}

export function noticeOf(order: Order, what: "call" | "notice" | "ping"): Notice {
  return { name: nameOf(order, what), input: `${order.body} of ${order.key}` };
}

/** What the other side knows a send by. */
export function nameOf(
  { route, tenant, key }: Omit<Order, "body" | "workMs">,
  what: "call" | "notice" | "ping",
): string {
  return `${route}/${tenant}/${key}/${what}`;
}

export function insert(
  to: Queries,
  table: "business" | "settled",
  { route, tenant, key, body }: Omit<Order, "workMs">,
  execution: string,
): Promise<unknown> {
  const text = `insert into ${table} (route, tenant, key, body, execution) values ($1, $2, $3, $4, $5)`;
  return to.query(text, [route, tenant, key, body, execution]);
}

/** Headers of several lines, which a replay must give in their order. */
export function answerOf(
  { route, key, body }: Omit<Order, "workMs">,
  details: { readonly execution: string } & Readonly<Record<string, string>>,
): RunAnswer & { readonly status: number; readonly headers: Readonly<Record<string, string | string[]>> } {
  const link = [`</${route}/${key}>; rel="self"`, `</by/${details.execution}>; rel="author"`];
  const headers = { location: `/${route}/${key}`, link, etag: `"${details.execution}"` };
  return { status: 201, headers, body: { route, key, body, ...details } };
}

const limits = { timeoutMs: 1_000 };
const retry = { attempts: 2, backoffMs: 10, backoffMaxMs: 10 };
const delivery = { attemptsMax, backoffMs: 50, backoffMaxMs: 200 };

function provider<Tx extends Queries>(
  surroundings: Surroundings,
  isNoted: boolean,
): EffectOptions<Notice, Receipt, Tx> {
  return {
    deduplication: "provider",
    dedupeWindowMs: dayMs,
    limits,
    retry,
    delivery,
    execute: (input, call) => send(surroundings, input, call, true),
    ...(isNoted && {
      onDelivered: async ({ input: { name } }, tx) => {
        await tx.query("insert into noted (name) values ($1)", [name]);
      },
    }),
  };
}

function closing<Tx>(surroundings: Surroundings): EffectOptions<Notice, Receipt, Tx> {
  const { downstreamUrl } = surroundings;
  return {
    deduplication: "lookup",
    reopen: true,
    limits,
    retry,
    delivery,
    execute: (input, call) => send(surroundings, input, call, false),
    async lookup(_, { key, signal }) {
      const response = await fetch(`${downstreamUrl}/found?reference=${encodeURIComponent(key)}`, { signal });
      return (await response.json()) as { readonly found: Receipt } | null;
    },
    async close(_, { key, signal }) {
      const body = JSON.stringify({ reference: key });
      const response = await fetch(`${downstreamUrl}/close`, { method: "POST", body, signal });
      return (await response.json()) as { readonly closed: true } | { readonly happened: Receipt };
    },
  };
}

function careless<Tx>(surroundings: Surroundings): EffectOptions<Notice, Receipt, Tx> {
  const execute: EffectOptions<Notice, Receipt>["execute"] = (input, call) =>
    send(surroundings, input, call, false);
  return { deduplication: "none", limits, retry, delivery, execute };
}

async function send(
  { downstreamUrl, server, plant }: Surroundings,
  { name, input }: Notice,
  { key, signal }: { readonly key: string; readonly signal: AbortSignal },
  deduplicated: boolean,
): Promise<Receipt> {
  const reference = plant === "key-per-process" ? `${key}/${server}` : key;
  const body: Send = { name, reference, input, deduplicated, server };
  const response = await fetch(`${downstreamUrl}/send`, {
    method: "POST",
    body: JSON.stringify(body),
    signal,
  });
  if (response.status === 409) throw new EffectRefused({ message: "closed" });
  return (await response.json()) as Receipt;
}
