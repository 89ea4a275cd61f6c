/** What operators do with a latchkey: see what waits and why, settle, redrive or discard it. */
import type { RecordState } from "../engine/record.ts";
import type { RecordName } from "../execution/find-record.ts";
import type { Runtime } from "../execution/runtime.ts";
import { checkedProof, type OperatorProof } from "../execution/settlement-terms.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import { deadMessages, type Republish } from "../messages/dead-messages.ts";
import type { DeadVerdict } from "../stores/outbox.ts";
import { laterDeath, parseDeadName } from "./dead-names.ts";
import { decideDead, discardedKeepMs } from "./decide-dead.ts";
import { type DeletedTenant, type DeleteTenantOptions, deleteTenant } from "./delete-tenant.ts";
import {
  type ForgetOptions,
  type Hastened,
  type HastenRequest,
  hastenSeen,
  type RetryOptions,
} from "./hasten.ts";
import { type Inspected, inspectNamed } from "./inspect.ts";
import {
  type Census,
  effectSource,
  messageSource,
  type Page,
  type PageRequest,
  type QueueFilter,
  readAll,
  readAuditLog,
  readPage,
  recordSource,
  takeCensus,
} from "./queues.ts";
import { type Outcome, type SeenRecord, type Settled, settleSeen } from "./settle.ts";
import type { AuditLogView, DeadEffectView, MessageView, RecordView } from "./views.ts";

export interface OperatorOptions<Tx> {
  readonly latchkey: Pick<Latchkey<Tx>, "runtime" | "settle">;
  /** Publishes a dead message again. Default: none; messages then cannot be redriven. */
  readonly republish?: Republish;
}

/** An operator's decision about a dead effect or message. */
export type DeadDecision =
  /** Deliver the effect or publish the message after all. `cleared`: no earlier send of an effect has happened or ever will. */
  | { readonly decision: "redrive"; readonly doubt: "kept" | "cleared" }
  /** Give it up for good: it happened, or must never happen. */
  | { readonly decision: "discard" };

export type DecidedDead =
  | { readonly kind: "decided"; readonly what: "effect" | "message"; readonly audit: string }
  /** Nothing was changed. */
  | { readonly kind: "refused"; readonly title: string; readonly detail: string };

export interface Operator {
  /** What this operator can do with its store and options. */
  readonly abilities: {
    readonly effects: boolean;
    readonly messages: boolean;
    /** Whether dead messages can be published again. */
    readonly republish: boolean;
    /** Whether the store lists audit rows of all keys; Redis stores them by key only. */
    readonly auditLog: boolean;
    /** Whether the store finds the data of a tenant. */
    readonly deleteTenant: boolean;
  };
  /** Records in one state, oldest first. @throws {TypeError} for an invalid filter, limit or place. */
  records(state: RecordState, filter?: QueueFilter, page?: PageRequest): Promise<Page<RecordView>>;
  deadEffects(filter?: QueueFilter, page?: PageRequest): Promise<Page<DeadEffectView>>;
  deadMessages(filter?: QueueFilter, page?: PageRequest): Promise<Page<MessageView>>;
  /** All matches among the first 10,000 rows read: for acting on all of them. */
  everyRecord(state: RecordState, filter?: QueueFilter): Promise<Every<RecordView>>;
  everyDead(
    kind: "effect" | "message",
    filter?: QueueFilter,
  ): Promise<Every<{ readonly name: string; readonly tenant: string | null }>>;
  /**
   * Operators' decisions about all records, effects and messages, newest first. Null: the store has audit rows by key only.
   *
   * @throws {TypeError} for an invalid filter, limit or place.
   */
  auditLog(filter?: Pick<QueueFilter, "tenant">, page?: PageRequest): Promise<Page<AuditLogView> | null>;
  /** Counts a queue and groups it by cause; reads at most 10,000 of each kind. */
  census(queue: RecordState | "dead", filter?: QueueFilter): Promise<Census>;

  /**
   * What is known under this name. A string is a record's id, a downstream key, the id of a dead effect, which returns its
   * record, or the id of a dead message.
   */
  inspect(name: string | RecordName): Promise<Inspected>;

  /**
   * Settles an unknown record and writes an audit row. Repeating the call changes nothing.
   *
   * @param by the operator and the reason
   * @throws {TypeError} when `by` is blank
   * @throws {StoreError} when the store could not be used.
   */
  settle(seen: SeenRecord, outcome: Outcome, by: OperatorProof): Promise<Settled>;

  /**
   * Ends the retention of a finished record and writes an audit row: its key may run as new at once, under another record id.
   * Refuses records that are not finished, and those that have completed or lost their answer unless `mayRunAgain` is set.
   *
   * @throws {TypeError} when an option is unknown, or `by` is blank
   * @throws {StoreError} when the store could not be used; repeating the call is harmless.
   */
  forget(seen: SeenRecord, by: OperatorProof, options?: ForgetOptions): Promise<Hastened>;

  /**
   * Ends a wait and writes an audit row: a worker resumes a retryable record, or the outcome-reconciler looks an unknown one up
   * again. Runs nothing that may have happened. Refuses records that are finished, under way, or for their own client only.
   *
   * @throws {TypeError} when an option is unknown, or `by` is blank
   * @throws {StoreError} when the store could not be used; repeating the call is harmless.
   */
  retry(seen: SeenRecord, by: OperatorProof, options?: RetryOptions): Promise<Hastened>;

  /**
   * Decides about one death and writes an audit row.
   *
   * @param death for an effect `<id>@<attempt>`, for a message its id
   * @throws {TypeError} when the name is invalid or `by` is blank
   * @throws {StoreError} when the store could not be used
   * @throws the error of `republish`; the message stays dead.
   */
  decide(death: string, decision: DeadDecision, by: OperatorProof): Promise<DecidedDead>;

  /**
   * Removes everything of one tenant in small steps: records, steps, effects, messages and early settlements. Stop the tenant's
   * requests first: a request repeated afterwards runs as new. After a crash, calling it again continues.
   *
   * @throws {TypeError} when an option is out of range, or `by` is blank
   * @throws {StoreError} when the store could not be used.
   */
  deleteTenant(tenant: string, by: OperatorProof, options?: DeleteTenantOptions): Promise<DeletedTenant>;
}

export interface Every<View> {
  readonly items: readonly View[];
  /** Whether there may be more that were not read. */
  readonly more: boolean;
}

const optionNames = { latchkey: true, republish: true } as const satisfies OptionNames<
  OperatorOptions<unknown>
>;
const filterNames = {
  tenant: true,
  operation: true,
  effect: true,
  errorCode: true,
  notAfter: true,
  after: true,
} as const satisfies OptionNames<QueueFilter>;

const forgetNames = { mayRunAgain: true, dryRun: true } as const satisfies OptionNames<ForgetOptions>;
const retryNames = { dryRun: true } as const satisfies OptionNames<RetryOptions>;

/** @throws {TypeError} for an unknown option. */
export function createOperator<Tx>(options: OperatorOptions<Tx>): Operator {
  checkOptions("createOperator", options, optionNames);
  const { latchkey, republish = null } = options;
  const { runtime } = latchkey;
  const { store } = runtime;
  const messages = store.messages === null ? null : deadMessages(latchkey);
  const checked = (filter: QueueFilter = {}) => {
    checkOptions("operator: the filter", filter, filterNames);
    return filter;
  };
  return {
    abilities: {
      effects: store.outbox !== null,
      messages: messages !== null,
      republish: messages !== null && republish !== null,
      auditLog: store.listAudit !== undefined,
      deleteTenant: store.tenantData !== undefined,
    },
    records: async (state, filter, page = {}) =>
      readPage(recordSource(store, state, checked(filter)), checked(filter), page),
    deadEffects: async (filter, page = {}) =>
      readPage(effectSource(store, checked(filter)), checked(filter), page),
    deadMessages: async (filter, page = {}) =>
      readPage(messageSource(messages, checked(filter)), checked(filter), page),
    everyRecord: async (state, filter) =>
      readAll(recordSource(store, state, checked(filter)), checked(filter)),
    async everyDead(kind, filter) {
      if (kind === "effect") {
        const { items, more } = await readAll(effectSource(store, checked(filter)), checked(filter));
        return { items: items.map(({ death: name, tenant }) => ({ name, tenant })), more };
      }
      const { items, more } = await readAll(messageSource(messages, checked(filter)), checked(filter));
      return { items: items.map(({ id: name, tenant }) => ({ name, tenant })), more };
    },
    async auditLog(filter = {}, page = {}) {
      checkOptions("operator: the filter of the audit log", filter, { tenant: true });
      return readAuditLog(store, filter.tenant ?? null, page);
    },
    async census(queue, filter) {
      const only = checked(filter);
      const { now } = await store.readById(null, noId);
      const sources =
        queue === "dead"
          ? [effectSource(store, only), messageSource(messages, only)]
          : [recordSource(store, queue, only)];
      return takeCensus(sources, only, now);
    },
    inspect: (name) => inspectNamed(runtime, messages, name),
    deleteTenant: async (tenant, by, options = {}) =>
      deleteTenant(runtime, tenant, checkedProof(by), options),
    settle: async (seen, outcome, by) => settleSeen(latchkey, seen, outcome, checkedProof(by)),
    ...hastening(runtime),
    async decide(death, decision, by) {
      const name = parseDeadName(death);
      if (name === null)
        throw new TypeError("decide: pass the name of an effect's death, or the id of a message");
      const verdict: DeadVerdict =
        decision.decision === "discard"
          ? { event: "discard", keepMs: discardedKeepMs }
          : { event: "redrive", doubt: decision.doubt };
      const decided = await decideDead({ runtime, messages, republish }, name, verdict, checkedProof(by));
      if (decided.kind !== null && decided.audit !== null) {
        return { kind: "decided", what: decided.kind, audit: decided.audit };
      }
      const isEffect = decided.kind === null;
      return refusedDecision(isEffect, isEffect ? await laterDeath(store.outbox, name) : null);
    },
  };
}

function hastening<Tx>(runtime: Runtime<Tx>): Pick<Operator, "forget" | "retry"> {
  const hasten = async (seen: SeenRecord, request: HastenRequest, by: OperatorProof, dryRun = false) => {
    const done = await hastenSeen(runtime, seen, request, checkedProof(by), dryRun);
    if (done.kind === "done" && done.audit !== null) {
      const { id: recordId, operation } = done.record;
      const type = request.event === "forget" ? "forgotten" : "retried";
      runtime.emit({ ...runtime.about(operation, done.record), type, recordId, actor: by.operator });
    }
    return done;
  };
  return {
    async forget(seen, by, options = {}) {
      checkOptions("operator: forget", options, forgetNames);
      const { mayRunAgain = false, dryRun } = options;
      return hasten(seen, { event: "forget", mayRunAgain }, by, dryRun);
    },
    async retry(seen, by, options = {}) {
      checkOptions("operator: retry", options, retryNames);
      return hasten(seen, { event: "retry" }, by, options.dryRun);
    },
  };
}

/** No record has this id: reading it only returns the store's time. */
const noId = "00000000-0000-0000-0000-000000000000";

function refusedDecision(isGone: boolean, later: string | null): DecidedDead {
  if (!isGone) {
    return {
      kind: "refused",
      title: "Not published.",
      detail:
        "This process has no `republish`, or another person decided about the message at the same moment. You changed nothing.",
    };
  }
  return later === null
    ? {
        kind: "refused",
        title: "Nothing was changed. It is no longer dead.",
        detail: "Another person decided about it, or the other service has confirmed it.",
      }
    : {
        kind: "refused",
        title: "Nothing was changed. It has died again since you saw it.",
        detail: "It may have another cause now. Look at it again before you decide.",
      };
}
