/** Claims on effects: where the index is entered, and how a row that cannot be claimed is handled. */
import type { Clock } from "../../ports.ts";
import type { SqlRow } from "../../sql/transaction.ts";
import type { EffectWant, OutboxEffect } from "../outbox.ts";
import type { PostgresExecutor } from "./executor.ts";
import { effectOf } from "./outbox-rows.ts";
import type { outboxStatements } from "./outbox-statements.ts";
import { isCausedByRow, QuarantinedRows } from "./refusing-rows.ts";
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

  /** Called when an effect may have become due before the last claimed one. */
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
    const missing = this.#places.claimed(placed, claimedPlaces(rows));
    if (missing.length === 0) return rows.map(effectOf);
    this.#places.reset();
    // Effects that are claimed already must reach the dispatcher; the missing ones come with the next claim.
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

/** By effect. */
function claimedPlaces(rows: readonly SqlRow[]): ReadonlyMap<string, ClaimedPlaces> {
  const places = new Map<string, ClaimedPlaces>();
  let known = { hex: "", ms: 0 };
  for (const row of rows) {
    const effect = textOf(row, "effect");
    const place = places.get(effect) ?? { count: 0, aggregates: [], latestMs: null };
    places.set(effect, place);
    place.count += 1;
    if (booleanOf(row, "ordered")) {
      place.aggregates.push({ tenant: textOf(row, "tenant"), aggregate: textOf(row, "aggregate") });
      continue;
    }
    // Most of a page became due in the same few milliseconds.
    const hex = textOf(row, "available_at");
    if (hex !== known.hex) known = { hex, ms: momentOf(row, "available_at") };
    place.latestMs = Math.max(place.latestMs ?? known.ms, known.ms);
  }
  return places;
}

const startOverEveryMs = 1_000;

/** What was claimed of one effect. */
interface ClaimedPlaces {
  count: number;
  /** Of those in order. */
  readonly aggregates: AggregateName[];
  /** When the last of the others became due; null if there is none. */
  latestMs: number | null;
}

const noPlaces: ClaimedPlaces = { count: 0, aggregates: [], latestMs: null };

interface AggregateName {
  readonly tenant: string;
  readonly aggregate: string;
}

interface Place {
  readonly fromMs: number | null;
  /** When a claim last began at the front, by the monotonic clock. */
  readonly startedOverMs: number;
}

interface PlacedWant extends EffectWant {
  /** Null: from the front of the index. */
  readonly fromMs: number | null;
  /** Null: from the first aggregate. */
  readonly after: AggregateName | null;
}

/**
 * Where claims enter the index of due effects. While a transaction keeps dead rows from being removed, a claim from the
 * front walks over an entry for every effect that was claimed since: 20,000 of them cost about 4 ms. So a claim begins where
 * the last one ended. That decides nothing: a claim that finds fewer than it wants looks again from the front, and so does
 * the first claim after each second. An effect that became due behind that position waits that long at most, and only while
 * there are more than enough others.
 *
 * Ordered aggregates are claimed in the order of their names, each claim after the last one, so that no aggregate and no
 * tenant always comes first.
 */
class ClaimPlaces {
  readonly #clock: Clock;
  readonly #places = new Map<string, Place>();
  readonly #aggregates = new Map<string, AggregateName>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Called when an effect may have become due behind the positions. */
  reset(): void {
    this.#places.clear();
  }

  placed(wants: readonly EffectWant[]): readonly PlacedWant[] {
    const now = this.#clock.monotonicMs();
    return wants.map((want) => {
      const place = this.#places.get(want.effect);
      const fromMs =
        place !== undefined && now - place.startedOverMs < startOverEveryMs ? place.fromMs : null;
      if (fromMs === null) this.#places.set(want.effect, { fromMs: null, startedOverMs: now });
      return { ...want, fromMs, after: this.#aggregates.get(want.effect) ?? null };
    });
  }

  /** Notes the claimed rows, and returns what is still wanted from the front. */
  claimed(wants: readonly PlacedWant[], places: ReadonlyMap<string, ClaimedPlaces>): readonly EffectWant[] {
    return wants.flatMap(({ effect, limit, starts = false, fromMs, after }) => {
      const own = places.get(effect) ?? noPlaces;
      const missing = limit - own.count;
      this.#move(effect, own, missing > 0);
      const wasAll = fromMs === null && after === null;
      return wasAll || missing <= 0 ? [] : [{ effect, limit: missing, starts }];
    });
  }

  #move(effect: string, { aggregates, latestMs }: ClaimedPlaces, atEnd: boolean): void {
    const last = atEnd ? undefined : aggregates.toSorted(byBytes).at(-1);
    if (last === undefined) this.#aggregates.delete(effect);
    else this.#aggregates.set(effect, last);
    const place = this.#places.get(effect);
    if (place === undefined || latestMs === null) return;
    this.#places.set(effect, { ...place, fromMs: latestMs });
  }
}

/** The order of the index. */
function byBytes(left: AggregateName, right: AggregateName): number {
  const compare = (one: string, other: string) => Buffer.compare(Buffer.from(one), Buffer.from(other));
  return compare(left.tenant, right.tenant) || compare(left.aggregate, right.aggregate);
}
