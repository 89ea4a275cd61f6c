/** The outbox on Postgres. */

import type { Clock } from "../../../ports.ts";
import type { SqlRow, SqlStatement } from "../../../sql/transaction.ts";
import type { DeadDecision, DeadNote, DeliveryEnd, EffectFilter, OutboxSupport } from "../../outbox.ts";
import { checkStorable } from "../../storable.ts";
import type { PostgresExecutor } from "../executor.ts";
import { eachAlone } from "../statements/refusing-rows.ts";
import { foundRows, textOf } from "../statements/rows.ts";
import type { Confirmation } from "../transactions/confirm.ts";
import { EffectClaims } from "./effect-claims.ts";
import { EffectRescues } from "./effect-rescues.ts";
import { areDeliveries, claimsList, deliveryLists, effectOf, endsList } from "./outbox-rows.ts";
import type { outboxStatements } from "./outbox-statements.ts";
import type { Positions } from "./positions.ts";

type Statements = ReturnType<typeof outboxStatements>;

export function postgresOutbox(
  executor: PostgresExecutor,
  statements: Statements,
  confirmation: Confirmation,
  clock: Clock,
  positions: Positions,
): OutboxSupport {
  const claims = new EffectClaims(executor, statements, clock);
  const rescues = new EffectRescues(executor, statements, clock);

  /** Ids whose guard held, or that an earlier try has written. */
  const guarded = async (count: number, write: SqlStatement, repeated: () => SqlStatement) => {
    const done = (await executor.write(write)).map(idOf);
    if (done.length === count) return done;
    const again = await confirmation.idsOf(repeated());
    return [...new Set([...done, ...again])];
  };

  return {
    async claim(wants, token, leaseMs) {
      await positions.ensure();
      return claims.claim(wants, token, leaseMs);
    },

    start: (wanted, leaseMs) =>
      someOf(wanted, (some) => {
        const values = { claims: claimsList(some), lease_ms: leaseMs };
        const write = statements.startEffects.bind(values);
        return guarded(some.length, write, () => statements.effectsStarted.bind(values));
      }),

    end: (ends) =>
      someOf(ends, async (some) => {
        const write = endingOf(statements, some);
        const repeated = () => statements.effectsEnded.bind({ ends: endsList(some) });
        const done = await guarded(some.length, write, repeated);
        if (some.some(({ event }) => event !== "deliver" && event !== "keep_result")) claims.startOver();
        return done;
      }),

    async rescue(limit) {
      const rescued = await rescues.rescue(limit);
      if (rescued.unstarted + rescued.started > 0) claims.startOver();
      return rescued;
    },

    ...effectReads(executor, statements),

    async confirm({ id, generation, result }, note) {
      const given = { generation, result: Buffer.from(result).toString("hex"), proof: note.proof };
      const values = { id, ...given, ...noteValues(note) };
      const [row] = await executor.write(statements.confirmEffect.bind(values));
      claims.startOver();
      if (row !== undefined) return true;
      return confirmation.isDone(statements.effectDecided.bind(values));
    },

    async decide(id, decision, note) {
      const values = { id, ...decisionValues(decision), ...noteValues(note) };
      const [row] = await executor.write(statements.decideEffect.bind(values));
      claims.startOver();
      if (row !== undefined) return true;
      return confirmation.isDone(statements.effectDecided.bind(values));
    },
  };
}

type EffectReads = Required<Pick<OutboxSupport, "list" | "ofRecord" | "byDownstreamKey" | "finished">>;

function effectReads(executor: PostgresExecutor, statements: Statements): EffectReads {
  return {
    async list(filter) {
      const statement = filter.state === "dead" ? statements.listDead : statements.listEffects;
      return foundRows(await executor.read(statement.bind(filterValues(filter))), "id").map(effectOf);
    },

    async ofRecord(recordId) {
      const rows = await executor.read(statements.effectsOfRecord.bind({ record_id: recordId }));
      return foundRows(rows, "id").map(effectOf);
    },

    async byDownstreamKey(keys) {
      const wanted = keys.map((one) => ({ record_id: one.recordId, downstream_key: one.downstreamKey }));
      const rows = await executor.read(statements.effectsByKey.bind({ keys: JSON.stringify(wanted) }));
      return foundRows(rows, "id").map(effectOf);
    },

    async finished({ effect, from, to, limit, after }) {
      checkStorable("effect", effect);
      const page = { after_ms: after?.finishedAt ?? null, after_key: after?.downstreamKey ?? null };
      const values = { effect, from_ms: from, to_ms: to, limit, ...page };
      return foundRows(await executor.read(statements.finishedEffects.bind(values)), "id").map(effectOf);
    },
  };
}

function endingOf(statements: Statements, ends: readonly DeliveryEnd[]): SqlStatement {
  if (!areDeliveries(ends)) return statements.endEffects.bind({ ends: endsList(ends) });
  const lists = deliveryLists(ends);
  const kept = ends.some(({ keepMs }) => keepMs > 0);
  return kept ? statements.deliverEffects.bind(lists) : statements.removeEffects.bind(lists);
}

function idOf(row: SqlRow): string {
  return textOf(row, "id");
}

async function someOf<Item>(
  items: readonly Item[],
  write: (items: readonly Item[]) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  return items.length === 0 ? [] : eachAlone(items, write);
}

function filterValues({ state, effect, tenant, limit, after }: EffectFilter) {
  const started = state === "started";
  const page = { limit, after_ms: after?.createdAt ?? null, after_id: after?.id ?? null };
  return { state: started ? "claimed" : state, started, only_effect: effect, only_tenant: tenant, ...page };
}

function decisionValues(decision: DeadDecision) {
  const { event, attempt } = decision;
  return event === "redrive"
    ? { event, attempt, cleared: decision.doubt === "cleared", keep_ms: null }
    : { event, attempt, cleared: false, keep_ms: decision.keepMs };
}

function noteValues({ id, actor, reason }: DeadNote) {
  for (const [what, text] of Object.entries({ actor, reason: reason ?? "" })) checkStorable(what, text);
  return { audit_id: id, actor, reason };
}
