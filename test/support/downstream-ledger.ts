/** A payment provider with its own ledger, inside the test: it misbehaves on request, and forgets nothing. */
import { type EffectOptions, EffectRefused } from "../../packages/latchkey/src/index.ts";

export interface Charge {
  readonly id: string;
  readonly amount: number;
}

export interface ChargeInput {
  readonly amount: number;
}

/**
 * The result of one send. `lost_before`: it never arrives, and the caller cannot know. `lost_after`: it is charged, and the
 * reply is lost. `crash_before`, `crash_after`: the caller's process dies at that moment.
 */
export type SendFault = "proceed" | "lost_before" | "lost_after" | "crash_before" | "crash_after";

export class DownstreamLedger {
  /** What was charged, oldest first. */
  readonly charges: { readonly key: string; readonly charge: Charge }[] = [];
  /** Every request that arrived. */
  readonly requests: { readonly key: string; readonly amount: number }[] = [];
  readonly closed = new Set<string>();
  readonly #deduplicates: boolean;

  constructor({ deduplicates }: { readonly deduplicates: boolean }) {
    this.#deduplicates = deduplicates;
  }

  charge(key: string, { amount }: ChargeInput): Charge {
    this.requests.push({ key, amount });
    if (this.closed.has(key)) throw new EffectRefused({ message: "closed", detail: { closed: true } });
    const known = this.#deduplicates ? this.find(key) : null;
    if (known !== null) return known;
    const charge = { id: `ch_${this.charges.length + 1}`, amount };
    this.charges.push({ key, charge });
    return charge;
  }

  find(key: string): Charge | null {
    return this.charges.find((entry) => entry.key === key)?.charge ?? null;
  }

  close(key: string): { readonly closed: true } | { readonly happened: Charge } {
    const charge = this.find(key);
    if (charge !== null) return { happened: charge };
    this.closed.add(key);
    return { closed: true };
  }
}

export type EffectKind = "provider" | "close" | "reopen" | "lookup" | "none";

/** The effect of one process; `send` decides each send's result, and `crash` ends the process. */
export function chargeEffect(
  ledger: DownstreamLedger,
  kind: EffectKind,
  send: () => SendFault | Promise<SendFault> = () => "proceed",
  crash: () => void = () => {},
): EffectOptions<ChargeInput, Charge> {
  const execute: EffectOptions<ChargeInput, Charge>["execute"] = async (input, { key }) => {
    const fault = await send();
    const dies = () => {
      crash();
      return new Promise<never>(() => {});
    };
    if (fault === "crash_before") return dies();
    if (fault === "lost_before") throw new Error("socket hang up");
    const charge = ledger.charge(key, input);
    if (fault === "crash_after") return dies();
    if (fault === "lost_after") throw new Error("socket hang up");
    return charge;
  };
  const retry = { attempts: 2, backoffMs: 10, backoffMaxMs: 10 };
  const limits = { timeoutMs: 500 };
  const found = (charge: Charge | null) => (charge === null ? null : { found: charge });
  const lookup = async (_: ChargeInput, { key }: { readonly key: string }) => found(ledger.find(key));
  const close = async (_: ChargeInput, { key }: { readonly key: string }) => ledger.close(key);
  switch (kind) {
    case "provider":
      return { deduplication: "provider", dedupeWindowMs: 24 * 60 * 60 * 1000, execute, retry, limits };
    case "lookup":
      return { deduplication: "lookup", execute, lookup, retry, limits };
    case "close":
      return { deduplication: "lookup", execute, lookup, close, retry, limits };
    case "reopen":
      return { deduplication: "lookup", execute, lookup, close, reopen: true, retry, limits };
    case "none":
      return { deduplication: "none", execute, retry, limits };
    default:
      return kind satisfies never;
  }
}
