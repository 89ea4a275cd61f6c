/** Claims on effects: where the index is entered, and how a row that cannot be claimed is handled. */
import type { Clock } from "../../../ports.ts";
import type { SqlRow } from "../../../sql/transaction.ts";
import type { EffectWant, OutboxEffect } from "../../outbox.ts";
import { checkStorable } from "../../storable.ts";
import type { PostgresExecutor } from "../executor.ts";
import { isCausedByRow, QuarantinedRows } from "../statements/refusing-rows.ts";
import { booleanOf, foundRows, momentOf, textOf } from "../statements/rows.ts";
import { effectOf } from "./outbox-rows.ts";
import type { outboxStatements } from "./outbox-statements.ts";

interface ClaimTerms {
  readonly token: string;
  /** The effects whose claim is their start, as a list. */
  readonly starting: string;
  readonly lease_ms: number;
}

export class EffectClaims {
  readonly #executor: PostgresExecutor;
  readonly #statements: ReturnType<typeof outboxStatements>;
  readonly #positions: ClaimPositions;
  readonly #quarantined: QuarantinedRows;

  constructor(executor: PostgresExecutor, statements: ReturnType<typeof outboxStatements>, clock: Clock) {
    this.#executor = executor;
    this.#statements = statements;
    this.#positions = new ClaimPositions(clock);
    this.#quarantined = new QuarantinedRows(clock);
  }

  /** Called when an effect may have become due before the last claimed one. */
  startOver(): void {
    this.#positions.reset();
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
    const positioned = this.#positions.positioned(wanted);
    const rows = await this.#claim(positioned, terms);
    const missing = this.#positions.claimed(positioned, claimedByEffect(rows));
    if (missing.length === 0) return rows.map(effectOf);
    this.#positions.reset();
    // Effects that are claimed already must reach the dispatcher; the missing ones come with the next claim.
    const more = await this.#claim(this.#positions.positioned(missing), terms).catch(() => []);
    return [...rows, ...more].map(effectOf);
  }

  async #claim(wants: readonly PositionedWant[], terms: ClaimTerms): Promise<readonly SqlRow[]> {
    const lists = { wants: wantsList(wants), quarantined: this.#quarantined.list() };
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

function wantsList(wants: readonly PositionedWant[]): string {
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
function claimedByEffect(rows: readonly SqlRow[]): ReadonlyMap<string, ClaimedOfEffect> {
  const byEffect = new Map<string, ClaimedOfEffect>();
  let known = { hex: "", ms: 0 };
  for (const row of rows) {
    const effect = textOf(row, "effect");
    const claimed = byEffect.get(effect) ?? { count: 0, aggregates: [], latestMs: null };
    byEffect.set(effect, claimed);
    claimed.count += 1;
    if (booleanOf(row, "ordered")) {
      claimed.aggregates.push({ tenant: textOf(row, "tenant"), aggregate: textOf(row, "aggregate") });
      continue;
    }
    // Most of a page became due in the same few milliseconds.
    const hex = textOf(row, "available_at");
    if (hex !== known.hex) known = { hex, ms: momentOf(row, "available_at") };
    claimed.latestMs = Math.max(claimed.latestMs ?? known.ms, known.ms);
  }
  return byEffect;
}

const startOverEveryMs = 1_000;

/** What was claimed of one effect. */
interface ClaimedOfEffect {
  count: number;
  /** Of those in order. */
  readonly aggregates: AggregateName[];
  /** When the last of the others became due; null if there is none. */
  latestMs: number | null;
}

const nothingClaimed: ClaimedOfEffect = { count: 0, aggregates: [], latestMs: null };

interface AggregateName {
  readonly tenant: string;
  readonly aggregate: string;
}

interface IndexPosition {
  readonly fromMs: number | null;
  /** When a claim last began at the front, by the monotonic clock. */
  readonly startedOverMs: number;
}

interface PositionedWant extends EffectWant {
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
class ClaimPositions {
  readonly #clock: Clock;
  readonly #positions = new Map<string, IndexPosition>();
  readonly #aggregates = new Map<string, AggregateName>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Called when an effect may have become due behind the positions. */
  reset(): void {
    this.#positions.clear();
  }

  positioned(wants: readonly EffectWant[]): readonly PositionedWant[] {
    const now = this.#clock.monotonicMs();
    return wants.map((want) => {
      const position = this.#positions.get(want.effect);
      const fromMs =
        position !== undefined && now - position.startedOverMs < startOverEveryMs ? position.fromMs : null;
      if (fromMs === null) this.#positions.set(want.effect, { fromMs: null, startedOverMs: now });
      return { ...want, fromMs, after: this.#aggregates.get(want.effect) ?? null };
    });
  }

  /** Notes the claimed rows, and returns what is still wanted from the front. */
  claimed(
    wants: readonly PositionedWant[],
    claims: ReadonlyMap<string, ClaimedOfEffect>,
  ): readonly EffectWant[] {
    return wants.flatMap(({ effect, limit, starts = false, fromMs, after }) => {
      const own = claims.get(effect) ?? nothingClaimed;
      const missing = limit - own.count;
      this.#move(effect, own, missing > 0);
      const wasAll = fromMs === null && after === null;
      return wasAll || missing <= 0 ? [] : [{ effect, limit: missing, starts }];
    });
  }

  #move(effect: string, { aggregates, latestMs }: ClaimedOfEffect, atEnd: boolean): void {
    const last = atEnd ? undefined : aggregates.toSorted(byBytes).at(-1);
    if (last === undefined) this.#aggregates.delete(effect);
    else this.#aggregates.set(effect, last);
    const position = this.#positions.get(effect);
    if (position === undefined || latestMs === null) return;
    this.#positions.set(effect, { ...position, fromMs: latestMs });
  }
}

/** The order of the index. */
function byBytes(left: AggregateName, right: AggregateName): number {
  const compare = (one: string, other: string) => Buffer.compare(Buffer.from(one), Buffer.from(other));
  return compare(left.tenant, right.tenant) || compare(left.aggregate, right.aggregate);
}
