/** The ends of deliveries over any bridge: transactions that also finish their effect. */
import type { SqlStatement, TransactionBridge } from "../../../sql/transaction.ts";
import type {
  DeliveryOutcome,
  DeliveryRequest,
  DeliveryWork,
  OpenPhase,
  TransactionSupport,
} from "../../transactions.ts";
import { asSchemaError } from "../settings.ts";
import { onlyRow, textOf } from "../statements/rows.ts";
import { guardValues, keyValues, retentionValues, timeoutText } from "../statements/values.ts";
import type { phaseStatements } from "../transactions/phase-statements.ts";
import { refused } from "../transactions/refused.ts";
import {
  inOpenedSession,
  LimitsLost,
  openedSession,
  type SeenSessions,
} from "../transactions/session-statements.ts";
import type { deliveryStatements } from "./delivery-statements.ts";

type Answers = Extract<DeliveryWork<never>, { readonly end: "commit" }>["answers"];

export interface DeliveryParts<Tx> {
  readonly bridge: TransactionBridge<Tx>;
  readonly schema: string;
  readonly sessions: SeenSessions;
  readonly statements: ReturnType<typeof deliveryStatements> &
    Pick<ReturnType<typeof phaseStatements>, "openPhase">;
}

export function postgresDeliveries<Tx>({
  bridge,
  schema,
  sessions,
  statements,
}: DeliveryParts<Tx>): TransactionSupport<Tx>["deliver"] {
  const deliver = async <T>(
    request: DeliveryRequest,
    work: (open: OpenPhase<Tx>) => Promise<DeliveryWork<T>>,
  ): Promise<DeliveryOutcome<T>> => {
    const opening = [
      sessions.opening(statements.openPhase).bind({ limit_ms: timeoutText(request.idleLimitMs) }),
    ];
    let begun = false;
    try {
      const outcome = await bridge.transact<T>({ isolation: null, opening }, async (session) => {
        begun = true;
        const { tx, used, flush, revoke } = session;
        const row = onlyRow(session.opened[0]);
        const opened = openedSession(row, sessions);
        if (opened.refusal !== null) throw opened.refusal;
        const result = await work({ tx, used, flush, revoke });
        if (result.end !== "commit") return result;
        const { end, value, answers } = result;
        const own = closing(statements, request, textOf(row, "began"), answers);
        return { end, value, closing: inOpenedSession(opened, sessions.mayHaveChanged(session), [own]) };
      });
      if (outcome.kind === "refused") return refused(schema, sessions, outcome);
      return outcome.kind === "committed" ? { kind: "committed", value: outcome.value } : outcome;
    } catch (error) {
      if (error instanceof LimitsLost) return deliver(request, work);
      throw begun ? error : asSchemaError(error);
    }
  };
  return deliver;
}

function closing(
  statements: ReturnType<typeof deliveryStatements>,
  { claim, keepMs }: DeliveryRequest,
  began: string,
  answers: Answers,
): SqlStatement {
  const values = {
    effect_id: claim.id,
    claim_attempt: claim.fence.attempt,
    claim_token: claim.fence.token,
    keep_ms: keepMs,
    began,
  };
  if (answers === null) return statements.finishEffect.bind(values);
  const { key, guard, answer, retention } = answers;
  return statements.answerByEffect.bind({
    ...values,
    ...keyValues(key),
    ...guardValues(guard),
    ...retentionValues(retention),
    answer,
  });
}
