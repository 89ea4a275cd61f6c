import type { PgConnection, TransactionStatus } from "./client.ts";
import { type ConnectionState, type PipelineListener, stateOf } from "./connection-state.ts";

/**
 * Sees whether the transaction on a connection has ended, by whatever way past the guarded `tx`. The server says it
 * with every "ready for query"; one that was ended and begun again in a single message shows by its tag.
 */
export class TransactionWatch implements PipelineListener {
  readonly #state: ConnectionState | null;
  #ended = false;

  constructor(connection: PgConnection | undefined) {
    this.#state = connection === undefined ? null : stateOf(connection);
    if (this.#state !== null) this.#state.watch = this;
  }

  /** Stops looking; the first call decides. False: the transaction had ended before. */
  stopUnended(): boolean {
    if (this.#state?.watch === this) this.#state.watch = null;
    return !this.#ended;
  }

  onReady(status: TransactionStatus | undefined): void {
    if (status === "I") this.#ended = true;
  }

  onComplete(tag: string): void {
    if (tag === "COMMIT" || tag === "PREPARE TRANSACTION") this.#ended = true;
  }
}
