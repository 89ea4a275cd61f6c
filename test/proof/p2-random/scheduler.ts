/** What waits to be let go: calls to the store, sends, handlers, and what is on its way in the network. */
import type { StorePort } from "../../../packages/latchkey/src/testing/faulty-store/fault.ts";
import type { Config, Focus } from "./config.ts";
import type { Process } from "./process.ts";

export type WorldFault =
  | "proceed"
  | "not_sent"
  | "request_lost"
  | "reply_lost"
  | "crash_before"
  | "crash_after"
  | "late"
  | "slow"
  | "not_executed"
  | "refused";

export type WaitingKind = "call" | "handler" | "send" | "ask" | "reply" | "network";

export interface Waiting {
  readonly kind: WaitingKind;
  readonly what: string;
  /** Whose; what is in the network is nobody's any more. */
  readonly process: Process | null;
  readonly tenant: string | null;
  /** What can befall it. */
  readonly faults: readonly WorldFault[];
  /** It happens, or this befalls it. */
  readonly go: (fault: WorldFault) => void;
}

const reads: ReadonlySet<StorePort> = new Set([
  "read",
  "readById",
  "readJournal",
  "resolve",
  "endedLeases",
  "resumable",
  "effectsOfRecord",
  "effectsByKey",
  "finishedEffects",
  "readAudit",
]);
const opens: ReadonlySet<StorePort> = new Set(["open", "openPhase", "openDelivery", "openBatch"]);

/** Giving a connection back tells nobody anything. */
export const unscheduled: ReadonlySet<StorePort> = new Set([
  "rollback",
  "abandon",
  "rollbackPhase",
  "abandonPhase",
  "rollbackDelivery",
  "abandonDelivery",
  "rollbackBatch",
  "abandonBatch",
  "sendHint",
  "receiveHint",
  "listenToHints",
]);

const focused: Readonly<Record<Focus, ReadonlySet<string>>> = {
  any: new Set(),
  calls: new Set(["startCall", "endCall", "refence", "charged"]),
  commits: new Set([
    "open",
    "commit",
    "openPhase",
    "commitPhase",
    "openBatch",
    "commitBatch",
    "resolve",
    "refence",
  ]),
  ends: new Set(["create", "accept", "claimPending", "takeOver", "end", "giveUp", "settle", "handler"]),
  outbox: new Set([
    "claimEffects",
    "startEffects",
    "endEffects",
    "rescueEffects",
    "openDelivery",
    "commitDelivery",
    "look-up",
    "close",
  ]),
};

/** How likely a fault is, in 64. */
export function faultRateOf({ faultRate, focus }: Config, { what }: Waiting): number {
  if (focus === "any") return faultRate;
  const isFocused = focused[focus].has(what) || (focus === "outbox" && what.startsWith("mail"));
  return isFocused ? Math.min(40, 3 * faultRate) : faultRate >> 1;
}

const ofReads: readonly WorldFault[] = ["not_sent", "reply_lost", "slow", "crash_after"];
const ofOpens: readonly WorldFault[] = ["not_sent", "reply_lost", "slow", "crash_after"];
const ofWrites: readonly WorldFault[] = [
  "not_sent",
  "request_lost",
  "reply_lost",
  "late",
  "slow",
  "crash_before",
  "crash_after",
];
const ofSends: readonly WorldFault[] = [
  "request_lost",
  "reply_lost",
  "late",
  "not_executed",
  "refused",
  "crash_before",
  "crash_after",
];

const everything = { calls: ofWrites, reads: ofReads, opens: ofOpens, sends: ofSends };
const survivable = (faults: readonly WorldFault[]) => faults.filter((fault) => !fault.startsWith("crash"));
const uncrashed = {
  calls: survivable(ofWrites),
  reads: survivable(ofReads),
  opens: survivable(ofOpens),
  sends: survivable(ofSends),
};

/** What can befall each kind. */
export class FaultTable {
  readonly #of: typeof everything;
  readonly handler: readonly WorldFault[];
  readonly ask: readonly WorldFault[];

  constructor(crashes: boolean) {
    this.#of = crashes ? everything : uncrashed;
    this.handler = crashes ? ["crash_before"] : [];
    this.ask = crashes ? ["request_lost", "crash_before"] : ["request_lost"];
  }

  get send(): readonly WorldFault[] {
    return this.#of.sends;
  }

  call(port: StorePort): readonly WorldFault[] {
    if (reads.has(port)) return this.#of.reads;
    return opens.has(port) ? this.#of.opens : this.#of.calls;
  }
}

export class Scheduler {
  #waiting: Waiting[] = [];

  add(waiting: Waiting): void {
    this.#waiting.push(waiting);
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** What can go on now: frozen processes cannot. In the order in which it came. */
  eligible(): readonly Waiting[] {
    return this.#waiting.filter(({ process }) => process === null || !process.frozen);
  }

  take(waiting: Waiting): void {
    const at = this.#waiting.indexOf(waiting);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  /** Takes all that is of a process that has died. */
  takeAllOf(process: Process): readonly Waiting[] {
    const taken = this.#waiting.filter((waiting) => waiting.process === process);
    this.#waiting = this.#waiting.filter((waiting) => waiting.process !== process);
    return taken;
  }
}
