/**
 * Keeps the sequence behind `outbox.position` ahead of the rows. Logical replication and data-only restores copy rows but
 * not the sequence's value, and then newly enqueued effects would overtake waiting ones.
 */
import { LatchkeyError } from "../../../errors.ts";
import type { Clock } from "../../../ports.ts";
import type { PostgresExecutor } from "../executor.ts";
import { sql } from "../sql/texts.ts";
import { booleanOf, nullableText, onlyRow, textOf } from "../statements/rows.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

const checkEveryMs = 10_000;
const advanceLimitMs = 5_000;
/** Other sessions take values while this one reads, but never this many. */
const margin = 10_000;

export function positionStatements(names: SqlNames) {
  return {
    positionLook: statement("position_look", sql.positionLook, names),
    positionLock: statement("position_lock", sql.positionLock, names),
    positionAdvance: statement("position_advance", sql.positionAdvance, names),
  };
}

export interface PositionsSeen {
  /** Null if this role may not read the sequence. */
  readonly isBehind: boolean | null;
  readonly isSettable: boolean;
  /** The highest position of the effects that wait in order. */
  readonly highest: bigint;
}

export class Positions {
  readonly #executor: PostgresExecutor;
  readonly #clock: Clock;
  readonly #names: SqlNames;
  readonly #statements: ReturnType<typeof positionStatements>;
  #checkedMs = Number.NEGATIVE_INFINITY;
  #checking: Promise<void> | null = null;

  constructor(executor: PostgresExecutor, clock: Clock, names: SqlNames) {
    this.#executor = executor;
    this.#clock = clock;
    this.#names = names;
    this.#statements = positionStatements(names);
  }

  /**
   * Moves the sequence forward if it is behind; checks at most every ten seconds, or `now`.
   *
   * @throws {LatchkeyError} `schema-invalid` when it is behind and this role may not set it.
   * @throws {StoreError}
   */
  async ensure(when: "lately" | "now" = "lately"): Promise<void> {
    if (when === "lately" && this.#clock.monotonicMs() - this.#checkedMs < checkEveryMs) return;
    this.#checking ??= this.#check().finally(() => {
      this.#checking = null;
    });
    await this.#checking;
  }

  /** The same while a transaction is open, if another connection is free. An unreachable store is ignored, because COMMIT will report it. */
  async ensureBeside(): Promise<void> {
    if (!this.#executor.hasSpare) return;
    await this.ensure().catch((error: unknown) => {
      if (error instanceof LatchkeyError && error.code === "schema-invalid") throw error;
    });
  }

  /** Changes nothing. @throws {StoreError} */
  async look(): Promise<PositionsSeen> {
    const row = onlyRow(await this.#executor.read(this.#statements.positionLook.bind({})));
    const [last, highest] = [nullableText(row, "last"), BigInt(textOf(row, "highest"))];
    return {
      isBehind: last === null ? null : BigInt(last) < highest,
      isSettable: booleanOf(row, "settable"),
      highest,
    };
  }

  /** The statement that moves the sequence forward. */
  remedy(highest: bigint): string {
    return `select setval(pg_get_serial_sequence('${this.#names.outbox}', 'position'), ${highest + BigInt(margin)})`;
  }

  async #check(): Promise<void> {
    const { isBehind, isSettable, highest } = await this.look();
    if (isBehind) await this.#advance(isSettable, highest);
    this.#checkedMs = this.#clock.monotonicMs();
  }

  async #advance(isSettable: boolean, highest: bigint): Promise<void> {
    const { positionLock, positionAdvance } = this.#statements;
    const done = isSettable
      ? await this.#executor.runUntilConfirmed(
          () => [positionLock.bind({}), positionAdvance.bind({ margin })],
          advanceLimitMs,
        )
      : null;
    if (done !== null) return;
    const message =
      `The sequence of ${this.#names.outbox}.position is behind its rows, as after a move by logical replication: ordered effects would overtake each other. ` +
      `Run: ${this.remedy(highest)}`;
    throw new LatchkeyError("schema-invalid", { message });
  }
}
