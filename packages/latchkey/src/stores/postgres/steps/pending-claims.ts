/** Claims on pending records: one that refuses to be claimed must not stop the others. */
import type { Clock } from "../../../ports.ts";
import type { SqlRow } from "../../../sql/transaction.ts";
import { checkStorable } from "../../storable.ts";
import type { PendingWant } from "../../store.ts";
import type { PostgresExecutor } from "../executor.ts";
import { isCausedByRow, QuarantinedRows } from "../statements/refusing-rows.ts";
import { foundRows, textOf } from "../statements/rows.ts";
import type { deferredStatements } from "./deferred-statements.ts";

export class PendingClaims {
  readonly #executor: PostgresExecutor;
  readonly #statements: ReturnType<typeof deferredStatements>;
  readonly #quarantined: QuarantinedRows;

  constructor(executor: PostgresExecutor, statements: ReturnType<typeof deferredStatements>, clock: Clock) {
    this.#executor = executor;
    this.#statements = statements;
    this.#quarantined = new QuarantinedRows(clock);
  }

  /** @throws {TypeError} when an operation is named twice: its lives would share tokens */
  async claim(wants: readonly PendingWant[]): Promise<readonly SqlRow[]> {
    const { claimPending, duePending } = this.#statements;
    const lists = { wants: wantsList(wants), quarantined: this.#quarantined.list() };
    try {
      return await this.#executor.write(claimPending.bind(lists));
    } catch (error) {
      if (!isCausedByRow(error)) throw error;
      return this.#oneByOne(foundRows(await this.#executor.read(duePending.bind(lists)), "id"), wants);
    }
  }

  async #oneByOne(due: readonly SqlRow[], wants: readonly PendingWant[]): Promise<readonly SqlRow[]> {
    const left = new Map(wants.map((want) => [want.operation, { want, tokens: [...want.tokens] }]));
    const claimed: SqlRow[] = [];
    for (const row of due) {
      const id = textOf(row, "id");
      const { want, tokens } = left.get(textOf(row, "operation")) ?? {};
      const token = tokens?.shift();
      if (want === undefined || token === undefined) continue;
      const key = { tenant: textOf(row, "tenant"), scope: textOf(row, "scope"), key: textOf(row, "key") };
      const one = { id, ...key, wants: wantsList([{ ...want, tokens: [token] }]) };
      try {
        claimed.push(...(await this.#executor.write(this.#statements.claimPendingOne.bind(one))));
      } catch (error) {
        if (isCausedByRow(error)) this.#quarantined.quarantine(id);
        // Records that are claimed already must be run; the others come with the next claim.
        else if (claimed.length > 0) return claimed;
        else throw error;
      }
    }
    return claimed;
  }
}

function wantsList(wants: readonly PendingWant[]): string {
  if (new Set(wants.map(({ operation }) => operation)).size < wants.length) {
    throw new TypeError("An operation is named twice in one claim");
  }
  const rows = wants.map(({ operation, tokens, terms }) => {
    checkStorable("operation", operation);
    const { leaseMs, leaseEnd, attemptsMax, abandonAfterMs } = terms;
    const limits = { lease_ms: leaseMs, lease_end: leaseEnd, attempts_max: attemptsMax };
    return { operation, tokens, room: tokens.length, ...limits, abandon_after_ms: abandonAfterMs };
  });
  return JSON.stringify(rows);
}
