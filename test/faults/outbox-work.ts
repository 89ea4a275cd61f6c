/** What the outbox tests enqueue, for each kind of de-duplication, as whoever enqueues and whoever delivers define it. */
import {
  type Effect,
  type EffectOptions,
  EffectRefused,
  type Latchkey,
} from "../../packages/latchkey/src/index.ts";
import type { EffectKind } from "../support/downstream-ledger.ts";
import type { Receipt, Sent } from "./outbox-receiver.ts";

export interface EffectPlan {
  /** Of the definition. */
  readonly effect: string;
  readonly kind: EffectKind;
  /** With an `onDelivered` that writes the name into the table `noted`, which has no constraint. */
  readonly noted?: boolean;
  readonly ordered?: boolean;
  /** Default 1,000. Claims are held for twice this and ten seconds. */
  readonly timeoutMs?: number;
  /** Default 20. */
  readonly attemptsMax?: number;
}

export interface Notice {
  /** What the receiver knows it by, besides its key. */
  readonly name: string;
}

/** Anything with `query`, such as the store's transaction. */
export interface Queries {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** Where a delivery may be stopped; it goes on when what this gives has fulfilled. */
export type At = (point: "before-send" | "after-send" | "in-on-delivered", name: string) => Promise<void>;

export interface Surroundings {
  readonly receiverUrl: string;
  readonly at?: At;
}

export type NoticeEffect = Effect<Notice, Receipt>;

export function defineEffects<Tx extends Queries>(
  latchkey: Latchkey<Tx>,
  plans: readonly EffectPlan[],
  around: Surroundings,
): ReadonlyMap<string, NoticeEffect> {
  const define = (plan: EffectPlan) =>
    [plan.effect, latchkey.effect(plan.effect, effectOptions<Tx>(plan, around))] as const;
  return new Map(plans.map(define));
}

function effectOptions<Tx extends Queries>(
  { kind, noted = false, ordered = false, timeoutMs = 1_000, attemptsMax = 20 }: EffectPlan,
  { receiverUrl, at = async () => {} }: Surroundings,
): EffectOptions<Notice, Receipt, Tx> {
  const ask = async (path: string, init: RequestInit) => {
    const response = await fetch(receiverUrl + path, init);
    return { status: response.status, body: await response.json() };
  };
  const post = (path: string, body: unknown, signal: AbortSignal) =>
    ask(path, { method: "POST", body: JSON.stringify(body), signal });
  const options: Omit<EffectOptions<Notice, Receipt, Tx>, "deduplication"> = {
    limits: { timeoutMs },
    delivery: { ordered, attemptsMax, backoffMs: 50, backoffMaxMs: 200 },
    async execute({ name }, { key, signal }) {
      const sent: Sent = { name, reference: key, pid: process.pid, deduplicated: kind === "provider" };
      await at("before-send", name);
      const { status, body } = await post("/send", sent, signal);
      await at("after-send", name);
      if (status === 409) throw new EffectRefused({ message: "closed" });
      return body as Receipt;
    },
    ...(noted && {
      async onDelivered({ input: { name } }, tx) {
        await tx.query("insert into noted values ($1)", [name]);
        await at("in-on-delivered", name);
      },
    }),
  };
  const lookup: NonNullable<EffectOptions<Notice, Receipt>["lookup"]> = async (_, { key, signal }) => {
    const { body } = await ask(`/found?reference=${encodeURIComponent(key)}`, { signal });
    return body as { readonly found: Receipt } | null;
  };
  const close: NonNullable<EffectOptions<Notice, Receipt>["close"]> = async (_, { key, signal }) => {
    const { body } = await post("/close", { reference: key }, signal);
    return body as { readonly closed: true } | { readonly happened: Receipt };
  };
  switch (kind) {
    case "provider":
      return { deduplication: "provider", dedupeWindowMs: 24 * 60 * 60 * 1000, ...options };
    case "lookup":
      return { deduplication: "lookup", lookup, ...options };
    case "close":
      return { deduplication: "lookup", lookup, close, ...options };
    case "reopen":
      return { deduplication: "lookup", lookup, close, reopen: true, ...options };
    case "none":
      return { deduplication: "none", ...options };
    default:
      return kind satisfies never;
  }
}
