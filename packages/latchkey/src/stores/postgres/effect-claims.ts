/** Claims on effects: where the index is entered, and what becomes of a row that cannot be claimed. */
import type { Clock } from "../../ports.ts";
import type { SqlRow } from "../../sql/transaction.ts";
import type { EffectWant, OutboxEffect } from "../outbox.ts";
import { type ClaimedPlace, ClaimPlaces, type PlacedWant } from "./claim-places.ts";
import { isCausedByRow } from "./each-alone.ts";
import type { PostgresExecutor } from "./executor.ts";
import { effectOf } from "./outbox-rows.ts";
import type { outboxStatements } from "./outbox-statements.ts";
import { QuarantinedRows } from "./quarantined-rows.ts";
import { booleanOf, foundRows, momentOf, textOf } from "./rows.ts";
import { checkStorable } from "./values.ts";

interface ClaimTerms {
  readonly token: string;
  /** The effects whose claim is their start, as a list. */
  readonly starting: string;
  readonly lease_ms: number;
}

export class EffectClaims {
  readonly #executor: PostgresExecutor;
  readonly #statements: ReturnType<typeof outboxStatements>;
  readonly #places: ClaimPlaces;
  readonly #quarantined: QuarantinedRows;

  constructor(executor: PostgresExecutor, statements: ReturnType<typeof outboxStatements>, clock: Clock) {
    this.#executor = executor;
    this.#statements = statements;
    this.#places = new ClaimPlaces(clock);
    this.#quarantined = new QuarantinedRows(clock);
  }

  /** Something may have become due before what was claimed last. */
  startOver(): void {
    this.#places.reset();
  }

  async claim(
    wants: readonly EffectWant[],
    token: string,
    leaseMs: number,
  ): Promise<readonly OutboxEffect[]> {
    const wanted = wants.filter(({ limit }) => limit > 0);
    if (wanted.length === 0) return [];
    for (const { effect } of wanted) checkStorable("effect", effect);
    const starting = JSON.stringify(
      wanted.filter(({ starts }) => starts === true).map(({ effect }) => effect),
    );
    const terms = { token, starting, lease_ms: leaseMs };
    const placed = this.#places.placed(wanted);
    const rows = await this.#claim(placed, terms);
    const missing = this.#places.claimed(placed, rows.map(placeOf));
    if (missing.length === 0) return rows.map(effectOf);
    this.#places.reset();
    // What is claimed already must reach its dispatcher; what is missing comes with the next claim.
    const more = await this.#claim(this.#places.placed(missing), terms).catch(() => []);
    return [...rows, ...more].map(effectOf);
  }

  async #claim(wants: readonly PlacedWant[], terms: ClaimTerms): Promise<readonly SqlRow[]> {
    const lists = { wants: wantsList(wants), spared: this.#quarantined.list() };
    try {
      return await this.#executor.write(this.#statements.claimEffects.bind({ ...lists, ...terms }));
    } catch (error) {
      if (!isCausedByRow(error)) throw error;
      const due = foundRows(await this.#executor.read(this.#statements.dueEffects.bind(lists)), "id");
      return this.#oneByOne(
        due.map((row) => textOf(row, "id")),
        terms,
      );
    }
  }

  async #oneByOne(ids: readonly string[], terms: ClaimTerms): Promise<readonly SqlRow[]> {
    const claimed: SqlRow[] = [];
    for (const id of ids) {
      try {
        claimed.push(...(await this.#executor.write(this.#statements.claimEffect.bind({ id, ...terms }))));
      } catch (error) {
        if (!isCausedByRow(error)) throw error;
        this.#quarantined.quarantine(id);
      }
    }
    return claimed;
  }
}

function wantsList(wants: readonly PlacedWant[]): string {
  return JSON.stringify(
    wants.map(({ effect, limit, fromMs, after }) => ({
      effect,
      room: limit,
      from_ms: fromMs,
      after_tenant: after?.tenant ?? null,
      after_aggregate: after?.aggregate ?? null,
    })),
  );
}

function placeOf(row: SqlRow): ClaimedPlace {
  const effect = textOf(row, "effect");
  const availableAt = momentOf(row, "available_at");
  if (!booleanOf(row, "ordered")) return { effect, aggregate: null, availableAt };
  return {
    effect,
    aggregate: { tenant: textOf(row, "tenant"), aggregate: textOf(row, "aggregate") },
    availableAt,
  };
}
