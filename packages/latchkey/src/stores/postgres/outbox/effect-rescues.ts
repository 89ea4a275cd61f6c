/** Rescues of effects whose claims have ended: where the index is entered, and how a row that refuses the write is handled. */
import type { Clock } from "../../../ports.ts";
import type { SqlRow } from "../../../sql/transaction.ts";
import type { OutboxRescue } from "../../outbox.ts";
import type { PostgresExecutor } from "../executor.ts";
import { isCausedByRow, QuarantinedRows } from "../statements/refusing-rows.ts";
import { foundRows, momentOf, numberOf, onlyRow, textOf } from "../statements/rows.ts";
import type { outboxStatements } from "./outbox-statements.ts";

type RescueTerms = {
  readonly limit: number;
  readonly from_ms: number | null;
  /** The ids of quarantined effects, as a list. */
  readonly quarantined: string;
};

export class EffectRescues {
  readonly #executor: PostgresExecutor;
  readonly #statements: ReturnType<typeof outboxStatements>;
  readonly #position: RescuePosition;
  /** Effects that could not be freed. */
  readonly #quarantined: QuarantinedRows;

  constructor(executor: PostgresExecutor, statements: ReturnType<typeof outboxStatements>, clock: Clock) {
    this.#executor = executor;
    this.#statements = statements;
    this.#position = new RescuePosition(clock);
    this.#quarantined = new QuarantinedRows(clock);
  }

  async rescue(limit: number): Promise<OutboxRescue> {
    const terms = { limit, from_ms: this.#position.fromMs(), quarantined: this.#quarantined.list() };
    try {
      const row = onlyRow(await this.#executor.write(this.#statements.rescueEffects.bind(terms)));
      this.#position.looked(momentOf(row, "oldest"));
      return rescuedOf(row);
    } catch (error) {
      if (!isCausedByRow(error)) throw error;
      return this.#oneByOne(terms);
    }
  }

  async #oneByOne(terms: RescueTerms): Promise<OutboxRescue> {
    const { endedClaims, rescueEffect } = this.#statements;
    const ended = foundRows(await this.#executor.read(endedClaims.bind(terms)), "id");
    let [unstarted, started] = [0, 0];
    for (const id of ended.map((row) => textOf(row, "id"))) {
      try {
        const row = onlyRow(await this.#executor.write(rescueEffect.bind({ ...terms, id })));
        const freed = rescuedOf(row);
        unstarted += freed.unstarted;
        started += freed.started;
      } catch (error) {
        if (!isCausedByRow(error)) throw error;
        this.#quarantined.quarantine(id);
      }
    }
    return { unstarted, started };
  }
}

function rescuedOf(row: SqlRow): OutboxRescue {
  return { unstarted: numberOf(row, "unstarted"), started: numberOf(row, "started") };
}

const marginMs = 10_000;
const startOverEveryMs = 60_000;

/**
 * Where a rescue enters the index of claimed effects: at the oldest claim that the last one saw, for the reason given at
 * `ClaimPositions` in `effect-claims.ts`. A claim that committed late, or under a clock that has gone back, is within the
 * margin, or is found by the next rescue from the front.
 */
class RescuePosition {
  readonly #clock: Clock;
  #oldestMs: number | null = null;
  #startedOverMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** By the store's clock; null: from the front. */
  fromMs(): number | null {
    const now = this.#clock.monotonicMs();
    if (this.#oldestMs !== null && now - this.#startedOverMs < startOverEveryMs)
      return this.#oldestMs - marginMs;
    this.#startedOverMs = now;
    return null;
  }

  looked(oldestMs: number): void {
    this.#oldestMs = oldestMs;
  }
}
