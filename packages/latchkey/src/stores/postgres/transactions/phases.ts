/** Phases over any bridge: transactions that also write their step. */
import type { BridgeSession, BridgeWork, SqlStatement, TransactionBridge } from "../../../sql/transaction.ts";
import type { Owner } from "../../journal.ts";
import { checkStorable } from "../../storable.ts";
import type {
  OpenPhase,
  PhaseOutcome,
  PhaseRequest,
  PhaseWork,
  TransactionSupport,
} from "../../transactions.ts";
import type { PostgresExecutor } from "../executor.ts";
import { effectsList } from "../outbox/outbox-rows.ts";
import type { Positions } from "../outbox/positions.ts";
import { asSchemaError } from "../settings.ts";
import { momentOf, numberOf, onlyRow, textOf } from "../statements/rows.ts";
import { ownerOfValues, retentionValues, timeoutText } from "../statements/values.ts";
import type { phaseStatements } from "./phase-statements.ts";
import { refused } from "./refused.ts";
import {
  closedRow,
  inOpenedSession,
  LimitsLost,
  openedSession,
  type SeenSessions,
} from "./session-statements.ts";

export interface PhaseParts<Tx> {
  readonly bridge: TransactionBridge<Tx>;
  readonly schema: string;
  readonly executor: PostgresExecutor;
  readonly sessions: SeenSessions;
  readonly statements: ReturnType<typeof phaseStatements>;
  readonly positions: Positions;
}

type Work<Tx, T> = (open: OpenPhase<Tx>) => Promise<PhaseWork<T>>;
type CommitWork<T> = Extract<PhaseWork<T>, { readonly end: "commit" }>;

/** The outcome of the work, and whether it was to complete the attempt. */
interface Tried<T> {
  readonly value: T;
  readonly completes: boolean;
}

export function postgresPhases<Tx>(parts: PhaseParts<Tx>): TransactionSupport<Tx>["phase"] {
  const phase = async <T>(request: PhaseRequest, work: Work<Tx, T>): Promise<PhaseOutcome<T>> => {
    const { owner, isolation, idleLimitMs } = request;
    const { statements, bridge, sessions } = parts;
    const opening = [sessions.opening(statements.openPhase).bind({ limit_ms: timeoutText(idleLimitMs) })];
    let started = false;
    try {
      const outcome = await bridge.transact<Tried<T>>({ isolation, opening }, (session) => {
        started = true;
        return inPhase(parts, owner, session, work);
      });
      const { value, completes } = outcome.value;
      if (outcome.kind === "refused") return refused(parts.schema, parts.sessions, { ...outcome, value });
      if (outcome.kind !== "committed") return { ...outcome, value };
      if (!completes) return { kind: "committed", value, expiresAt: null };
      const closed = closedRow(outcome.closed);
      await dropLease(parts, owner, numberOf(closed, "leases") > 0);
      return { kind: "committed", value, expiresAt: momentOf(closed, "expires_at") };
    } catch (error) {
      if (error instanceof LimitsLost) return phase(request, work);
      throw started ? error : asSchemaError(error);
    }
  };
  return phase;
}

async function inPhase<Tx, T>(
  { statements, positions, sessions }: PhaseParts<Tx>,
  owner: Owner,
  session: BridgeSession<Tx>,
  work: Work<Tx, T>,
): Promise<BridgeWork<Tried<T>>> {
  const { tx, used, flush, revoke } = session;
  const row = onlyRow(session.opened[0]);
  const opened = openedSession(row, sessions);
  if (opened.refusal !== null) throw opened.refusal;
  const result = await work({ tx, used, flush, revoke });
  const value = { value: result.value, completes: false };
  if (result.end !== "commit") return { end: result.end, value };
  if (result.effects.some(({ ordered }) => ordered)) await positions.ensureBeside();
  const completes = result.completes !== null;
  const own = closing(statements, owner, textOf(row, "began"), result);
  return {
    end: "commit",
    value: { ...value, completes },
    closing: inOpenedSession(opened, sessions.mayHaveChanged(session), [own]),
  };
}

function closing<T>(
  statements: ReturnType<typeof phaseStatements>,
  owner: Owner,
  began: string,
  { step, completes, effects }: CommitWork<T>,
): SqlStatement {
  const { name, position, version, result } = step;
  checkStorable("name", name);
  checkStorable("version", version);
  const values = {
    ...ownerOfValues(owner),
    began,
    name,
    position,
    version,
    result,
    effects: effectsList(effects),
  };
  const enqueuing = effects.length > 0;
  if (completes === null) return (enqueuing ? statements.advanceEnqueuing : statements.advance).bind(values);
  const { answer, retention } = completes;
  return (enqueuing ? statements.completePhaseEnqueuing : statements.completePhase).bind({
    ...values,
    answer,
    ...retentionValues(retention),
  });
}

/** Nothing depends on the lease any more, because the record is finished; if the row stays, the record-cleaner removes it. */
async function dropLease<Tx>({ executor, statements }: PhaseParts<Tx>, owner: Owner, isGone: boolean) {
  if (!isGone) await executor.write(statements.dropLease.bind(ownerOfValues(owner))).catch(() => {});
  // Not before the lease is gone: a renewal would hold the connection again.
  executor.heartbeats.drop(owner.fence.token);
}
