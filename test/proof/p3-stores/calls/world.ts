/** What the callers of one sequence know: they learn it from the replies, which are the same on every store. */
import {
  type Fence,
  type Guard,
  guardOf,
  type LatchkeyRecord,
  type RecordKey,
} from "../../../../packages/latchkey/src/engine/record.ts";
import { uuidVersion7 } from "../../../../packages/latchkey/src/ports.ts";
import type { CallStep, Owner, Step } from "../../../../packages/latchkey/src/stores/journal.ts";
import type { EffectClaim, OutboxEffect } from "../../../../packages/latchkey/src/stores/outbox.ts";
import type { Choices } from "../../p2-random/choices.ts";
import type { Subject } from "../bench.ts";

export const beginMs = Date.UTC(2026, 0, 1);

const allKeys: readonly RecordKey[] = [
  { tenant: "a", scope: "pay", key: "k" },
  { tenant: "a", scope: "pay", key: "K" },
  { tenant: "b", scope: "pay", key: "k" },
  { tenant: "a", scope: "*", key: "k" },
  { tenant: "a", scope: "refund", key: "k" },
];

export const operations = ["pay", "refund"] as const;

/** How a fence or a guard was come by. */
export type Flavour = "valid" | "stale" | "foreign";

export interface Named<T> {
  readonly what: T;
  readonly flavour: Flavour;
}

/** An effect that somebody wanted to enqueue. */
export interface KnownEffect {
  readonly id: string;
  readonly recordId: string;
}

/** A claim on an effect that a caller got. */
export interface KnownClaim extends KnownEffect, EffectClaim {
  readonly tenant: string;
}

export class CallWorld {
  nowMs = beginMs;
  readonly keys: readonly RecordKey[];
  /** The one that the next call is about. */
  key: RecordKey;
  /**
   * Calls may take many at once. Then the same time comes up more than once, and which of two that are due together comes
   * first is nobody's promise: so either all that is due is asked for, or the times differ and limits are small.
   */
  readonly inBatches: boolean;
  /** Who has owned what, the newest last. */
  readonly owners: Owner[] = [];
  readonly claims: KnownClaim[] = [];
  readonly effects: KnownEffect[] = [];
  /** The one that the next call is about; null: any. */
  effect: KnownEffect | null = null;
  readonly recordIds: string[] = [];
  readonly downstreamKeys: string[] = [];
  readonly #guards: (Guard & { readonly key: RecordKey })[] = [];
  readonly #reference: Subject;
  #drawn = 0;

  constructor(head: Choices, reference: Subject) {
    this.#reference = reference;
    this.inBatches = head.choose(2) === 1;
    this.keys = allKeys.slice(0, head.pick([1, 1, 2, 2, 3, allKeys.length]));
    this.key = head.pick(this.keys);
  }

  /** The record as it is: what an up-to-date caller would have read. */
  async peek(key: RecordKey): Promise<LatchkeyRecord | null> {
    const { record } = await this.#reference.store.read(key);
    if (record !== null) this.#guards.push({ ...guardOf(record), key });
    return record;
  }

  /** Of the record that has this id now. */
  async peekById(id: string): Promise<LatchkeyRecord | null> {
    for (const key of this.keys) {
      const record = await this.peek(key);
      if (record?.id === id) return record;
    }
    return null;
  }

  async steps({ id, ...key }: RecordKey & { readonly id: string }): Promise<readonly Step[]> {
    return (await this.#reference.store.journal.read(key, id))?.steps ?? [];
  }

  async calls(record: LatchkeyRecord): Promise<readonly CallStep[]> {
    const steps = await this.steps(record);
    return steps.flatMap((step) => (step.kind === "call" ? [step] : []));
  }

  async peekEffect({ id, recordId }: KnownEffect): Promise<OutboxEffect | null> {
    const effects = await this.#reference.store.outbox?.ofRecord(recordId);
    return effects?.find((one) => one.id === id) ?? null;
  }

  token(): string {
    return this.#bytes(16).toString("hex");
  }

  id(): string {
    return uuidVersion7(this.nowMs, this.#bytes(10));
  }

  bytes(what: string): Uint8Array {
    this.#drawn += 1;
    return Buffer.from(`${what} ${this.#drawn}`);
  }

  name(what: string): string {
    this.#drawn += 1;
    return `${what}-${this.#drawn}`;
  }

  /** An owner of this key's attempt: right, an earlier one, or one who never was. */
  owner(choices: Choices, key: RecordKey, record: LatchkeyRecord | null): Named<Owner> {
    const fence = record?.fence ?? { attempt: 1, token: this.token() };
    const right: Owner = { key, id: record?.id ?? this.id(), fence };
    const earlier = this.owners.filter(
      (one) => isSameKey(one.key, key) && (one.id !== right.id || one.fence.token !== fence.token),
    );
    switch (choices.choose(18)) {
      case 17:
        return { what: { ...right, fence: { ...fence, token: this.token() } }, flavour: "foreign" };
      case 16:
        return { what: { ...right, fence: this.#otherNumber(fence) }, flavour: "foreign" };
      case 15:
        return { what: { ...right, id: this.id() }, flavour: "foreign" };
      case 14:
      case 13:
        return earlier.length === 0
          ? { what: right, flavour: "valid" }
          : { what: choices.pick(earlier), flavour: "stale" };
      default:
        return { what: right, flavour: "valid" };
    }
  }

  /** A guard on this key: right, on a version that is gone, or on one that never was. */
  guard(choices: Choices, key: RecordKey, record: LatchkeyRecord | null): Named<Guard> {
    const right: Guard =
      record === null
        ? { id: this.id(), state: "in_progress", fence: { attempt: 1, token: this.token() } }
        : guardOf(record);
    const earlier = this.#guards.filter((one) => isSameKey(one.key, key) && !isSameGuard(one, right));
    switch (choices.choose(18)) {
      case 17:
        return { what: { ...right, fence: { ...right.fence, token: this.token() } }, flavour: "foreign" };
      case 16:
        return { what: { ...right, fence: this.#otherNumber(right.fence) }, flavour: "foreign" };
      case 15:
        return { what: { ...right, id: this.id() }, flavour: "foreign" };
      case 14:
      case 13: {
        if (earlier.length === 0) return { what: right, flavour: "valid" };
        const { id, state, fence } = choices.pick(earlier);
        return { what: { id, state, fence }, flavour: "stale" };
      }
      default:
        return { what: right, flavour: "valid" };
    }
  }

  claim(choices: Choices): Named<KnownClaim> | null {
    const latest = new Map(this.claims.map((claim) => [claim.id, claim]));
    if (latest.size === 0) return null;
    const about = this.effect;
    const right = (about && latest.get(about.id)) ?? choices.pick([...latest.values()]);
    switch (choices.choose(10)) {
      case 9:
        return { what: { ...right, fence: { ...right.fence, token: this.token() } }, flavour: "foreign" };
      case 8:
        return { what: { ...right, fence: this.#otherNumber(right.fence) }, flavour: "foreign" };
      case 7: {
        const what = choices.pick(this.claims.filter(({ id }) => id === right.id));
        return { what, flavour: what.fence.token === right.fence.token ? "valid" : "stale" };
      }
      default:
        return { what: right, flavour: "valid" };
    }
  }

  #otherNumber({ attempt, token }: Fence): Fence {
    return { attempt: attempt + 1, token };
  }

  #bytes(length: number): Buffer {
    this.#drawn += 1;
    const bytes = Buffer.alloc(length, 0xa5);
    bytes.writeUInt32BE(this.#drawn, length - 4);
    return bytes;
  }
}

function isSameKey(left: RecordKey, right: RecordKey): boolean {
  return left.tenant === right.tenant && left.scope === right.scope && left.key === right.key;
}

function isSameGuard(left: Guard, right: Guard): boolean {
  return left.id === right.id && left.state === right.state && left.fence.token === right.fence.token;
}
