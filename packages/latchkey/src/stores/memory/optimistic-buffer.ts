/** A transaction of the memory store that opens with the first use of its `tx`. */
import { LatchkeyError } from "../../errors.ts";
import type { Admission, TransactionRequest } from "../transactions.ts";
import type { KeyLocks } from "./key-locks.ts";
import { type MemoryState, type OpenBuffer, openBuffer } from "./open-buffer.ts";
import type { MemoryTransaction, WriteBuffer } from "./tables.ts";

export class OptimisticBuffer {
  readonly #state: MemoryState;
  readonly #request: TransactionRequest;
  readonly #locks: KeyLocks;
  readonly #admit: (seen: Admission) => Promise<boolean>;
  #opening: Promise<boolean> | null = null;
  #open: OpenBuffer | null = null;
  #admitted = false;
  #used = false;
  #revoked = false;

  constructor(
    state: MemoryState,
    request: TransactionRequest,
    locks: KeyLocks,
    admit: (seen: Admission) => Promise<boolean>,
  ) {
    this.#state = state;
    this.#request = request;
    this.#locks = locks;
    this.#admit = admit;
  }

  readonly tx: MemoryTransaction = {
    insert: async (table, row) => (await this.#use()).tx.insert(table, row),
    rows: async (table) => (await this.#use()).tx.rows(table),
  };

  get used(): boolean {
    return this.#used;
  }

  open(): Promise<boolean> {
    if (this.#opening === null) {
      this.#opening = this.#openNow();
      // A call that waits for the opening gets its error; a handler may make none, so the rejection counts as handled.
      this.#opening.catch(() => {});
    }
    return this.#opening;
  }

  revoke(): void {
    this.#revoked = true;
    this.#open?.buffer.revoke();
  }

  close(): void {
    this.#revoked = true;
    this.#open?.close();
  }

  /** @throws {TypeError} when the run was not admitted */
  admittedBuffer(): WriteBuffer {
    if (this.#open === null || !this.#admitted) {
      throw new TypeError("A transaction that was not admitted cannot be committed");
    }
    return this.#open.buffer;
  }

  async #openNow(): Promise<boolean> {
    const { key, idleLimitMs } = this.#request;
    const unlock = this.#locks.lock(key);
    this.#open = openBuffer(this.#state, idleLimitMs, () => unlock?.());
    const reading = { record: this.#state.rows.record(key), now: this.#state.now() };
    this.#admitted = await this.#admit({ reading, exclusive: unlock !== null });
    return this.#admitted;
  }

  async #use(): Promise<WriteBuffer> {
    if (this.#revoked) throw new LatchkeyError("tx-revoked");
    this.#used = true;
    if (!(await this.open())) throw new LatchkeyError("not-admitted");
    if (this.#open === null) throw new LatchkeyError("tx-revoked");
    return this.#open.buffer;
  }
}
