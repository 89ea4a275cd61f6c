/** Charging a card in three steps (phase, call, phase), for each kind of de-duplication, as the processes here do it. */

import type { Charge } from "../../examples/payments/provider-ledger.ts";
import {
  type EffectOptions,
  EffectRefused,
  type IsolationLevel,
  type Latchkey,
  type OwnedOperation,
  type StepAttempt,
} from "../../packages/latchkey/src/index.ts";
import type { EffectKind } from "../support/downstream-ledger.ts";
import { pass } from "./stops.ts";

export const kinds: readonly EffectKind[] = ["provider", "close", "reopen", "lookup", "none"];

/** How the operation of a kind is defined. */
export interface Manner {
  readonly kind: EffectKind;
  readonly leaseEnd: "resume" | "reconcile";
  /** The last phase completes the attempt; else it ends by itself, one store call later. */
  readonly finishes: boolean;
}

export function nameOf({ kind, leaseEnd, finishes }: Manner): string {
  return [kind, leaseEnd, finishes ? "finish" : "phase"].join("-");
}

export const manners: readonly Manner[] = kinds.flatMap((kind) =>
  (["resume", "reconcile"] as const).flatMap((leaseEnd) =>
    [true, false].map((finishes) => ({ kind, leaseEnd, finishes })),
  ),
);

export interface Settings {
  /** Default 1,000. */
  readonly leaseMs?: number;
  /** Default 5. */
  readonly attemptsMax?: number;
  /** Default 24 hours. */
  readonly retentionMs?: number;
  /** Time for one send. Default 30,000: the provider syncs its ledger for each charge. */
  readonly timeoutMs?: number;
  readonly isolation?: IsolationLevel;
  /** A send goes on when it is asked to stop, as with clients that know no signal. Default false. */
  readonly deaf?: boolean;
  /** How the provider behaves where a submission does not say. Default `ok`. */
  readonly mode?: string;
}

export interface Order {
  /** Also what the provider's ledger has as description. */
  readonly order: string;
  /** Where whoever works on it dies, each time. */
  readonly deadly?: "phase" | "call";
}

interface ChargeInput {
  readonly order: string;
  readonly deadly?: boolean;
}

/** What happens, as it happens. */
export type Tell = (line: Readonly<Record<string, unknown>>) => void;

export interface Surroundings {
  readonly settings: Settings;
  readonly providerUrl: string;
  readonly tell: Tell;
  /** How the provider is to behave at the next send of this submission. */
  readonly nextMode: () => string;
}

/** Anything with `query`, such as the store's transaction. */
interface Queries {
  query(text: string, values: unknown[]): Promise<unknown>;
}

export type Operations = ReadonlyMap<string, OwnedOperation<"lease", Order>>;

export function defineCharging<Tx extends Queries>(latchkey: Latchkey<Tx>, around: Surroundings): Operations {
  const { settings, tell } = around;
  const { timeoutMs: _, mode: __, deaf: ___, isolation, ...options } = settings;
  const effects = new Map(
    kinds.map((kind) => [kind, latchkey.effect(`card-${kind}`, effectOptions(kind, around))] as const),
  );
  const define = ({ kind, leaseEnd, finishes }: Manner) => {
    const effect = effects.get(kind);
    if (effect === undefined) throw new TypeError(kind);
    const name = nameOf({ kind, leaseEnd, finishes });
    const operation = latchkey.operation(name, {
      execution: "lease",
      leaseMs: 1_000,
      ...options,
      ...(isolation !== undefined && { isolation }),
      leaseEnd,
      version: "1",
      run: async ({ order, deadly }: Order, attempt: StepAttempt<Tx>) => {
        const recordId = await attempt.phase("order_recorded", async (tx) => {
          tell({ ran: "order_recorded", order });
          await tx.query("insert into orders (name) values ($1)", [order]);
          return attempt.id;
        });
        const charge = await attempt.call("charged", effect, { order, deadly: deadly === "call" });
        const answer = {
          status: 201,
          headers: { location: `/orders/${recordId}` },
          body: { order, recordId, charge: charge.id },
        };
        const settle = async (tx: Tx) => {
          tell({ ran: "settled", order });
          await tx.query("insert into settled (name) values ($1)", [order]);
          if (deadly === "phase") die();
          return answer;
        };
        return finishes ? attempt.finish("settled", settle) : attempt.phase("settled", settle);
      },
    });
    return [name, operation] as const;
  };
  return new Map(manners.map(define));
}

function die(): void {
  process.kill(process.pid, "SIGKILL");
}

function effectOptions(
  kind: EffectKind,
  { providerUrl, tell, nextMode, settings }: Surroundings,
): EffectOptions<ChargeInput, Charge> {
  const ask = askProvider(providerUrl);
  const execute: EffectOptions<ChargeInput, Charge>["execute"] = ({ order, deadly }, { key, signal }) =>
    pass("send", async () => {
      tell({ sends: key, order });
      // Only under this header does the provider recognise a repetition.
      const named = kind === "provider" ? { "idempotency-key": key } : {};
      const response = await ask("/charges", {
        method: "POST",
        headers: { "content-type": "application/json", "x-provider-mode": nextMode(), ...named },
        body: JSON.stringify({ amount: 500, currency: "EUR", description: order, reference: key }),
        ...(settings.deaf !== true && { signal }),
      });
      const replayed = response.headers.has("idempotent-replayed");
      tell({ answered: key, order, status: response.status, replayed });
      if (deadly) die();
      if (response.status === 409) throw new EffectRefused({ message: "closed" });
      if (response.status !== 201) throw new Error(`the provider answered ${response.status}`);
      return (await response.json()) as Charge;
    });
  const lookup: NonNullable<EffectOptions<ChargeInput, Charge>["lookup"]> = async (_, { key, signal }) => {
    const response = await ask(`/charges?reference=${encodeURIComponent(key)}`, { signal });
    const [found] = (await response.json()) as readonly Charge[];
    tell({ lookedUp: key, found: found !== undefined });
    return found === undefined ? null : { found };
  };
  const close: NonNullable<EffectOptions<ChargeInput, Charge>["close"]> = async (_, { key, signal }) => {
    const response = await ask("/charges/close", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ reference: key }),
      signal,
    });
    return (await response.json()) as { readonly closed: true } | { readonly happened: Charge };
  };
  const retry = { attempts: 2, backoffMs: 10, backoffMaxMs: 10 };
  const common = { execute, retry, limits: { timeoutMs: settings.timeoutMs ?? 30_000 } };
  switch (kind) {
    case "provider":
      return { deduplication: "provider", dedupeWindowMs: 24 * 60 * 60 * 1000, ...common };
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

function askProvider(url: string): (path: string, init: RequestInit) => Promise<Response> {
  return (path, init) => fetch(url + path, init);
}
