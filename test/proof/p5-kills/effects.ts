/** What is called and delivered, for each kind of de-duplication, as every process here defines it. */
import {
  type Effect,
  type EffectOptions,
  EffectRefused,
  type Latchkey,
} from "../../../packages/latchkey/src/index.ts";
import type { Ask } from "./ask-other-side.ts";
import { type Port, runningCall } from "./course.ts";
import type { Reply } from "./other-side.ts";
import type { Plant } from "./plants.ts";

export const kinds = ["provider", "close", "reopen", "lookup", "none"] as const;
export type Kind = (typeof kinds)[number];

/** Also what the effects of an order are called that it enqueues. */
export type NoticeName = `notice-${Kind}` | `noted-${Kind}` | "ordered";

/** What every effect is given. */
export interface Sent {
  /** What the other side knows it by, besides its key. */
  readonly name: string;
}

/** What an effect gives. */
export interface Given {
  readonly receipt: string;
}

/** Anything with `query`, such as the store's transaction. */
export interface Queries {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** Makes a port call; where calls are counted, this one is. */
export type Pass = <T>(port: Port, act: () => Promise<T>) => Promise<T>;

export interface Outside {
  readonly ask: Ask;
  readonly pass: Pass;
  readonly plant: Plant | null;
}

export interface Effects {
  /** Of a step. */
  readonly calls: ReadonlyMap<Kind, Effect<Sent, Given>>;
  /** Enqueued. */
  readonly notices: ReadonlyMap<string, Effect<Sent, Given>>;
  /** Enqueued, and it gives a deferred operation its answer. */
  readonly answers: Effect<Sent, Given>;
}

export function defineEffects<Tx extends Queries>(latchkey: Latchkey<Tx>, outside: Outside): Effects {
  const define = (name: string, options: EffectOptions<Sent, Given, Tx>): Effect<Sent, Given> =>
    latchkey.effect(name, options);
  const noted: Pick<EffectOptions<Sent, Given, Tx>, "onDelivered"> = {
    onDelivered: async ({ input: { name } }, tx) => {
      await outside.pass("statement", () => tx.query("insert into noted (name) values ($1)", [name]));
    },
  };
  const of = (kind: Kind) => optionsOf<Tx>(kind, outside);
  const notices = new Map<string, Effect<Sent, Given>>();
  for (const kind of kinds) {
    notices.set(`notice-${kind}`, define(`notice-${kind}`, of(kind)));
    notices.set(`noted-${kind}`, define(`noted-${kind}`, { ...of(kind), ...noted }));
  }
  const inOrder = { ...of("provider"), delivery: { ...delivery, ordered: true } };
  notices.set("ordered", define("ordered", { ...inOrder, ...noted }));
  const answers = define("answers", {
    ...of("provider"),
    onDelivered: async (delivered, tx) => {
      await noted.onDelivered?.(delivered, tx);
      const { recordId, result } = delivered;
      delivered.answer({ status: 201, body: { recordId, ...result } });
    },
  });
  const calls = new Map(kinds.map((kind) => [kind, define(`call-${kind}`, of(kind))] as const));
  return { calls, notices, answers };
}

const delivery = { attemptsMax: 8, backoffMs: 20, backoffMaxMs: 100 };

function optionsOf<Tx>(kind: Kind, outside: Outside): EffectOptions<Sent, Given, Tx> {
  const { plant } = outside;
  const put = (ask: "send" | "lookup" | "close", { name, ...more }: Sent, key: string) =>
    question(outside, ask, {
      name,
      key,
      deduplicated: kind === "provider",
      input: JSON.stringify({ name, ...more }),
    });
  const common: Pick<EffectOptions<Sent, Given, Tx>, "execute" | "retry" | "limits" | "delivery"> = {
    async execute(sent, { key }) {
      const reply = await put("send", sent, key);
      if (reply.kind !== "receipt") throw new EffectRefused({ message: "closed" });
      return { receipt: reply.receipt.id };
    },
    retry: { attempts: 2, backoffMs: 10, backoffMaxMs: 10 },
    limits: { timeoutMs: 25_000 },
    delivery,
  };
  const lookup: NonNullable<EffectOptions<Sent, Given>["lookup"]> = async (sent, { key }) => {
    const reply = await put("lookup", sent, key);
    return reply.kind === "receipt" ? { found: { receipt: reply.receipt.id } } : null;
  };
  const close: NonNullable<EffectOptions<Sent, Given>["close"]> = async (sent, { key }) => {
    if (plant === "closes alone") return { closed: true };
    const reply = await put("close", sent, key);
    return reply.kind === "receipt" ? { happened: { receipt: reply.receipt.id } } : { closed: true };
  };
  switch (kind) {
    case "provider":
      return { deduplication: "provider", dedupeWindowMs: 24 * 60 * 60 * 1_000, ...common };
    case "lookup":
      return { deduplication: "lookup", lookup, ...common };
    case "close":
      return { deduplication: "lookup", lookup, close, ...common };
    case "reopen":
      return { deduplication: "lookup", lookup, close, reopen: true, ...common };
    case "none":
      return { deduplication: "none", ...common };
    default:
      return kind satisfies never;
  }
}

/** Asks the other side, as one port call. */
export function question(
  { ask, pass }: Pick<Outside, "ask" | "pass">,
  what: "send" | "lookup" | "close",
  about: {
    readonly name: string;
    readonly key: string;
    readonly deduplicated: boolean;
    readonly input: string;
  },
): Promise<Reply> {
  return pass(what, () => ask({ ask: what, ...about, late: runningCall()?.late ?? false }));
}
