import type { PgConnection, PgReady } from "./client.ts";

/**
 * Sees whether the transaction on a connection has ended, by whatever way past the guarded `tx`. The server says it
 * with every "ready for query"; one that was ended and begun again in a single message shows by its tag.
 */
export class TransactionWatch {
  readonly #connection: PgConnection | undefined;
  #ended = false;

  constructor(connection: PgConnection | undefined) {
    this.#connection = connection;
    connection?.on("readyForQuery", this.#onReady);
    connection?.on("commandComplete", this.#onComplete);
  }

  /** Stops looking; the first call decides. False: the transaction had ended before. */
  stopUnended(): boolean {
    this.#connection?.removeListener("readyForQuery", this.#onReady);
    this.#connection?.removeListener("commandComplete", this.#onComplete);
    return !this.#ended;
  }

  readonly #onReady = ({ status }: PgReady): void => {
    if (status === "I") this.#ended = true;
  };

  readonly #onComplete = ({ text }: { readonly text: string }): void => {
    if (text === "COMMIT" || text === "PREPARE TRANSACTION") this.#ended = true;
  };
}
