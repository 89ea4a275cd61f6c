/** Opens a transaction whose handler has already started: BEGIN is sent with the handler's first statement. */
import { StoreError } from "../../errors.ts";
import type { BridgeRequest, BridgeSession } from "../transaction.ts";
import type { PgTrailingQuery } from "./client.ts";
import type { Connection } from "./connections.ts";
import { begin, hasJoined, noteIsolation, openError } from "./control-statements.ts";
import type { FirstPipeline } from "./handler-statements.ts";
import { namingSchemas } from "./statement-names.ts";

type Opened = BridgeSession<never>["opened"];

export class OptimisticOpening implements FirstPipeline {
  readonly #connection: Connection;
  readonly #request: BridgeRequest;
  readonly #admit: (opened: Opened) => Promise<boolean>;
  #opening: Promise<boolean> | null = null;
  #opened = false;
  #admitted = false;
  #schemas: string | null;

  constructor(connection: Connection, request: BridgeRequest, admit: (opened: Opened) => Promise<boolean>) {
    this.#connection = connection;
    this.#request = request;
    this.#admit = admit;
    this.#schemas = connection.state?.namedIn ?? null;
  }

  /** Whether anything was sent. */
  get sent(): boolean {
    return this.#opening !== null;
  }

  get takesQuery(): boolean {
    return !this.sent;
  }

  /** Whether there is a transaction to end. */
  get opened(): boolean {
    return this.#opened;
  }

  /** Once true, statements need not wait. */
  get admitted(): boolean {
    return this.#admitted;
  }

  /**
   * The schemas that named statements look in: before the transaction is open, those of the connection's earlier
   * transactions. Null if no statement may have a name.
   */
  get schemas(): string | null {
    return this.#schemas;
  }

  /** @param trailingQuery sent along if this call opens the transaction, else ignored */
  open(trailingQuery: PgTrailingQuery | null = null): Promise<boolean> {
    if (this.#opening === null) {
      this.#opening = this.#open(trailingQuery);
      // A statement that waits for the opening gets its error; a handler may send none, so the rejection counts as handled.
      this.#opening.catch(() => {});
    }
    return this.#opening;
  }

  async #open(trailingQuery: PgTrailingQuery | null): Promise<boolean> {
    const { isolation, opening } = this.#request;
    const statements = [begin(isolation), ...opening];
    const reply = await this.#connection.sendPipeline(
      statements,
      // The server answers a whole pipeline at once, and Latchkey sets no limit for the handler's statement.
      trailingQuery === null ? {} : { trailingQuery, timeoutMs: null },
    );
    const whole =
      reply.replies.length === statements.length && (trailingQuery !== null || reply.error === null);
    if (!whole || hasJoined(reply)) throw openError(reply);
    const opened = reply.replies.slice(1).map(({ rows }) => rows);
    noteIsolation(this.#connection, this.#request, opened);
    this.#checkSchemas(opened, trailingQuery?.name);
    this.#opened = true;
    this.#admitted = await this.#admit(opened);
    return this.#admitted;
  }

  /** @throws {StoreError} when the trailing query had a name and looked in other schemas than the name was given for */
  #checkSchemas(opened: Opened, name: string | undefined): void {
    const expected = this.#schemas;
    this.#schemas = namingSchemas(this.#connection.state, opened[0]?.[0]);
    if (!name || this.#schemas === expected) return;
    throw new StoreError("rolled_back", {
      message: "The connection looks for tables in other schemas than before",
    });
  }
}
