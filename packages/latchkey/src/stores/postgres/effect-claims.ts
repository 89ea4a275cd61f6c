/** Claims on effects: where the index is entered, and what becomes of a row that cannot be claimed. */
import type { Clock } from "../../ports.ts";
import type { EffectWant, OutboxEffect } from "../outbox.ts";
import { isCausedByRow } from "./each-alone.ts";
import type { PostgresExecutor } from "./executor.ts";
import { effectOf } from "./outbox-rows.ts";
import type { outboxStatements } from "./outbox-statements.ts";
import { foundRows, textOf } from "./rows.ts";
import { checkStorable } from "./values.ts";

/** How long a row that could not be claimed is left alone. */
const sparedMs = 60_000;
const sparedMax = 1_000;

export class EffectClaims {
  readonly #executor: PostgresExecutor;
  readonly #statements: ReturnType<typeof outboxStatements>;
  readonly #clock: Clock;
  /** Effects that could not be claimed, and until when they are left alone, by the monotonic clock. */
  readonly #spared = new Map<string, number>();

  constructor(executor: PostgresExecutor, statements: ReturnType<typeof outboxStatements>, clock: Clock) {
    this.#executor = executor;
    this.#statements = statements;
    this.#clock = clock;
  }

  startOver(): void {}

  async claim(
    wants: readonly EffectWant[],
    token: string,
    leaseMs: number,
  ): Promise<readonly OutboxEffect[]> {
    const wanted = wants.filter(({ limit }) => limit > 0);
    if (wanted.length === 0) return [];
    for (const { effect } of wanted) checkStorable("effect", effect);
    const lists = { wants: this.#listOf(wanted), spared: this.#sparedList() };
    const terms = { token, lease_ms: leaseMs };
    try {
      const rows = await this.#executor.write(this.#statements.claimEffects.bind({ ...lists, ...terms }));
      return rows.map(effectOf);
    } catch (error) {
      if (!isCausedByRow(error)) throw error;
      const due = foundRows(await this.#executor.read(this.#statements.dueEffects.bind(lists)), "id");
      return this.#oneByOne(
        due.map((row) => textOf(row, "id")),
        terms,
      );
    }
  }

  async #oneByOne(
    ids: readonly string[],
    terms: { readonly token: string; readonly lease_ms: number },
  ): Promise<readonly OutboxEffect[]> {
    const effects: OutboxEffect[] = [];
    for (const id of ids) {
      try {
        const rows = await this.#executor.write(this.#statements.claimEffect.bind({ id, ...terms }));
        effects.push(...rows.map(effectOf));
      } catch (error) {
        if (!isCausedByRow(error)) throw error;
        this.#spare(id);
      }
    }
    return effects;
  }

  #spare(id: string): void {
    this.#spared.set(id, this.#clock.monotonicMs() + sparedMs);
    const [oldest] = this.#spared.keys();
    if (this.#spared.size > sparedMax && oldest !== undefined) this.#spared.delete(oldest);
  }

  #sparedList(): string {
    const now = this.#clock.monotonicMs();
    for (const [id, until] of this.#spared) if (until <= now) this.#spared.delete(id);
    return JSON.stringify([...this.#spared.keys()]);
  }

  #listOf(wants: readonly EffectWant[]): string {
    return JSON.stringify(wants.map(({ effect, limit }) => ({ effect, room: limit, from_ms: null })));
  }
}
