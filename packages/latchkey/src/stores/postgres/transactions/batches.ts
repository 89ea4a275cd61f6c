/** Several keys in one transaction of any bridge that has parts. */
import type { RecordKey } from "../../../engine/record.ts";
import type {
  BridgeOutcome,
  PartedSession,
  SqlRow,
  SqlStatement,
  TransactionBridge,
} from "../../../sql/transaction.ts";
import type {
  Admission,
  BatchedRecord,
  BatchOutcome,
  BatchRequest,
  BatchWork,
  OpenBatch,
  TransactionPart,
  TransactionSupport,
} from "../../transactions.ts";
import { hexOf } from "../outbox/outbox-rows.ts";
import { asSchemaError } from "../settings.ts";
import { arrayText, optionalsText } from "../statements/array-text.ts";
import { momentOf, onlyRow, textOf } from "../statements/rows.ts";
import { keyValues, lifeValues, retentionValues, timeoutText } from "../statements/values.ts";
import type { batchStatements } from "./batch-statements.ts";
import { lookOf } from "./confirm.ts";
import { inOpenedSession, LimitsLost, openedSession } from "./session-statements.ts";
import { effectStatements, refusedOutcome, type TransactionParts } from "./transactions.ts";

type PartedBridge<Tx> = TransactionBridge<Tx> & Required<Pick<TransactionBridge<Tx>, "transactParts">>;

export interface BatchParts<Tx> extends TransactionParts<Tx> {
  readonly batch: ReturnType<typeof batchStatements>;
}

export function postgresBatches<Tx>(parts: BatchParts<Tx>): Pick<TransactionSupport<Tx>, "runBatch"> {
  const { bridge } = parts;
  return hasParts(bridge) ? { runBatch: (request, work) => runBatch(parts, bridge, request, work) } : {};
}

function hasParts<Tx>(bridge: TransactionBridge<Tx>): bridge is PartedBridge<Tx> {
  return bridge.transactParts !== undefined;
}

async function runBatch<Tx, T>(
  parts: BatchParts<Tx>,
  bridge: PartedBridge<Tx>,
  request: BatchRequest,
  work: (open: OpenBatch<Tx>) => Promise<BatchWork<T>>,
): Promise<BatchOutcome<T>> {
  const { keys, isolation, idleLimitMs } = request;
  const { batch, settings, sessions } = parts;
  const locks = await Promise.all(keys.map((key) => settings.lockOf(key)));
  const values = { locks: JSON.stringify(locks), limit_ms: timeoutText(idleLimitMs) };
  const opening = [sessions.opening(batch.openBatch).bind(values), batch.lookBatch.bind(keyLists(keys))];
  let started = false;
  try {
    const outcome = await bridge.transactParts<T>({ isolation, opening }, async (session) => {
      const opened = openedSession(onlyRow(session.opened[0]), sessions);
      if (isolation === null) sessions.isolation = opened.settings.isolation;
      const closing = async (records: readonly BatchedRecord[], changed: boolean) => {
        if (records.some(({ effects }) => effects.some(({ ordered }) => ordered)))
          await parts.positions.ensureBeside();
        const began = textOf(onlyRow(session.opened[0]), "began");
        return inOpenedSession(opened, changed, [
          ...records.flatMap((record) => effectStatements(parts, record)),
          completing(batch, records, began),
        ]);
      };
      started = true;
      return inBatch(parts, session, admissionsOf(session.opened, opened), closing, work);
    });
    return outcomeOf(parts, outcome);
  } catch (error) {
    if (error instanceof LimitsLost) return runBatch(parts, bridge, request, work);
    throw started ? error : asSchemaError(error);
  }
}

function completing(
  { completeBatch, completeBatchTraced }: BatchParts<never>["batch"],
  records: readonly BatchedRecord[],
  began: string,
): SqlStatement {
  const isTraced = records.some(({ life }) => life.trace !== undefined);
  return (isTraced ? completeBatchTraced : completeBatch).bind({ ...recordLists(records), began });
}

type OptionalColumn = "principal" | "summary" | "trace";
type RequiredColumn = Exclude<keyof ReturnType<typeof rowOf>, OptionalColumn>;

/** A list for each column. */
function recordLists(records: readonly BatchedRecord[]) {
  const rows = records.map(rowOf);
  const list = (column: RequiredColumn) => arrayText(rows.map((row) => row[column]));
  const optionals = (column: OptionalColumn) => optionalsText(rows.map((row) => row[column]));
  return {
    tenants: list("tenant"),
    scopes: list("scope"),
    keys: list("key"),
    ids: list("id"),
    operations: list("operation"),
    fingerprint_versions: list("fingerprint_version"),
    fingerprints: list("fingerprint"),
    principals: optionals("principal"),
    attempts: list("attempt"),
    tokens: list("token"),
    summaries: optionals("summary"),
    traces: optionals("trace"),
    answers: list("answer"),
    retentions_ms: list("retention_ms"),
    forget_afters_ms: list("forget_after_ms"),
  };
}

function rowOf({ life, answer, retention }: BatchedRecord) {
  const { fingerprint, summary, addressable: _addressable, input: _input, ...values } = lifeValues(life);
  return {
    ...values,
    ...retentionValues(retention),
    fingerprint: hexOf(fingerprint),
    summary: hexOf(summary),
    answer: hexOf(answer),
  };
}

function keyLists(keys: readonly RecordKey[]) {
  const rows = keys.map(keyValues);
  return {
    tenants: arrayText(rows.map(({ tenant }) => tenant)),
    scopes: arrayText(rows.map(({ scope }) => scope)),
    keys: arrayText(rows.map(({ key }) => key)),
  };
}

function admissionsOf(
  [first, looks = []]: PartedSession<never>["opened"],
  { settings, refusal }: ReturnType<typeof openedSession>,
): readonly (Admission | null)[] {
  // At SERIALIZABLE a look-up inside the transaction would make transactions of different keys in a small table fail.
  if (settings.isolation === "serializable") return looks.map(() => null);
  const exclusive = textOf(onlyRow(first), "exclusive");
  return looks.map((row, place) => admissionOf(row, exclusive[place] === "t", refusal));
}

/** Null for a record with a lease, which has not been read, and for one that a standby may not have yet. */
function admissionOf(row: SqlRow, exclusive: boolean, refusal: Admission["refusal"]): Admission | null {
  const { reading, unconfirmed } = lookOf([row]);
  if (unconfirmed || reading.record?.state === "in_progress") return null;
  return { reading, exclusive, refusal: refusal ?? null };
}

async function inBatch<Tx, T>(
  { sessions }: BatchParts<Tx>,
  session: PartedSession<Tx>,
  admissions: OpenBatch<Tx>["admissions"],
  closing: (records: readonly BatchedRecord[], changed: boolean) => Promise<readonly SqlStatement[]>,
  work: (open: OpenBatch<Tx>) => Promise<BatchWork<T>>,
) {
  let changed = false;
  const part = (): TransactionPart<Tx> => {
    const { tx, used, flush, revoke, state, undo, mayHaveChangedSession } = session.part();
    const leavesBehind = () => mayHaveChangedSession?.() ?? true;
    const left = () => {
      changed ||= sessions.mayHaveChanged({ mayHaveChangedSession });
      revoke();
    };
    return { tx, used, flush, revoke: left, state, undo, leavesBehind };
  };
  const result = await work({ admissions, part });
  if (result.end !== "commit") return result;
  const { end, value, records } = result;
  return { end, value, closing: await closing(records, changed) };
}

function outcomeOf<Tx, T>(parts: BatchParts<Tx>, outcome: BridgeOutcome<T>): BatchOutcome<T> {
  const { kind, value } = outcome;
  switch (kind) {
    case "committed":
      return { kind, value, expiresAt: expiriesOf(outcome.closed) };
    case "rolled_back":
    case "in_doubt":
      return outcome;
    case "refused":
      return refusedOutcome(parts, outcome);
    default:
      return kind satisfies never;
  }
}

/** The expiry of each record, by its id. */
function expiriesOf(closed: readonly (readonly SqlRow[])[]): ReadonlyMap<string, number> {
  const rows = closed.flat().filter((row) => "expires_at" in row);
  return new Map(rows.map((row) => [textOf(row, "id"), momentOf(row, "expires_at")]));
}
