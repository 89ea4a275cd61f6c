/** Faults of a transaction that opens with the first use of its `tx`: the call that opens it can be lost, or its reply. */
import type { RecordKey } from "../../engine/record.ts";
import { LatchkeyError } from "../../errors.ts";
import type { OptimisticTransaction } from "../../stores/transactions.ts";
import { type FaultyProcess, failureOf } from "./process.ts";

export class OptimisticOpening<Tx> {
  readonly #process: FaultyProcess;
  readonly #key: RecordKey;
  readonly #inner: OptimisticTransaction<Tx>;
  #opening: Promise<boolean> | null = null;
  #used = false;
  #revoked = false;

  constructor(process: FaultyProcess, key: RecordKey, inner: OptimisticTransaction<Tx>) {
    this.#process = process;
    this.#key = key;
    this.#inner = inner;
  }

  /** The transaction as its work gets it. Functions of its `tx` return promises. */
  get open(): OptimisticTransaction<Tx> {
    const inner = this.#inner;
    return {
      tx: this.#watched(inner.tx),
      used: () => this.#used || inner.used(),
      flush: inner.flush,
      revoke: () => {
        this.#revoked = true;
        inner.revoke();
      },
      admitted: () => this.#admitted(),
    };
  }

  #watched(tx: Tx): Tx {
    if (typeof tx !== "object" || tx === null) return tx;
    return new Proxy(tx, {
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== "function" || typeof property === "symbol") return value;
        return async (...args: unknown[]) => {
          if (this.#revoked) throw new LatchkeyError("tx-revoked");
          this.#used = true;
          if (!(await this.#admitted())) throw new LatchkeyError("not-admitted");
          return Reflect.apply(value, target, args);
        };
      },
    });
  }

  #admitted(): Promise<boolean> {
    if (this.#opening === null) {
      this.#opening = this.#openNow();
      this.#opening.catch(() => {});
    }
    return this.#opening;
  }

  async #openNow(): Promise<boolean> {
    const planned = await this.#process.outcomeOf("open", this.#key);
    // A request that arrives late opens a transaction that is never used.
    const admitted = planned.effect === "now" ? await this.#inner.admitted() : false;
    if (planned.callerGets === "reply") await this.#process.replied(planned);
    await this.#process.stopIfDead(planned);
    if (planned.callerGets !== "reply") throw failureOf("open", planned);
    return admitted;
  }
}
