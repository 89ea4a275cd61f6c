/** What people on call do with a latchkey: see what waits and why, settle it, redrive it, give it up. */
import type { RecordState } from "../engine/record.ts";
import type { RecordName } from "../execution/find-record.ts";
import type { Runtime } from "../execution/runtime.ts";
import type { OperatorProof } from "../execution/settle.ts";
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
  /** Publishes a dead message again. Default: none, and messages cannot be redriven. */
  readonly republish?: Republish;
}

/** What a person decides about a dead effect or message. */
export type DeadDecision =
  /** Delivered, or published, after all. `cleared`: no earlier send of an effect has happened or ever will. */
  | { readonly decision: "redrive"; readonly doubt: "kept" | "cleared" }
  /** Given up for good: it happened, or never shall. */
  | { readonly decision: "discard" };

export type DecidedDead =
  | { readonly kind: "decided"; readonly what: "effect" | "message"; readonly audit: string }
  /** Nothing was changed. */
  | { readonly kind: "refused"; readonly title: string; readonly detail: string };

export interface Operator {
  /** What can be done here. */
  readonly abilities: {
    readonly effects: boolean;
    readonly messages: boolean;
    /** Whether dead messages can be published again. */
    readonly republish: boolean;
    /** Whether the store lists audit rows of all keys; Redis keeps them by key alone. */
    readonly auditLog: boolean;
    /** Whether the store finds what belongs to a tenant. */
    readonly deleteTenant: boolean;
  };
  /** Records in one state, oldest first. @throws {TypeError} for a filter, limit or place that is none. */
  records(state: RecordState, filter?: QueueFilter, page?: PageRequest): Promise<Page<RecordView>>;
  deadEffects(filter?: QueueFilter, page?: PageRequest): Promise<Page<DeadEffectView>>;
  deadMessages(filter?: QueueFilter, page?: PageRequest): Promise<Page<MessageView>>;
  /** Everything that matches, up to 10,000 looked at: for acting on all of it. */
  everyRecord(state: RecordState, filter?: QueueFilter): Promise<Every<RecordView>>;
  everyDead(
    kind: "effect" | "message",
    filter?: QueueFilter,
  ): Promise<Every<{ readonly name: string; readonly tenant: string | null }>>;
  /**
   * Who decided what about any record, effect or message, newest first. Null: the store keeps audit rows by key alone.
   *
   * @throws {TypeError} for a filter, limit or place that is none.
   */
  auditLog(filter?: Pick<QueueFilter, "tenant">, page?: PageRequest): Promise<Page<AuditLogView> | null>;
  /** Counts a queue and groups it by cause; at most 10,000 of each kind are looked at. */
  census(queue: RecordState | "dead", filter?: QueueFilter): Promise<Census>;

  /**
   * What is known by this name. Text is a record's id, a downstream key, the id of a dead effect, which shows its record, or
   * the id of a dead message.
   */
  inspect(name: string | RecordName): Promise<Inspected>;

  /**
   * Settles an unknown record, with an audit row. Repeating it changes nothing.
   *
   * @param by who says so, and why
   * @throws {TypeError} when `by` is blank
   * @throws {StoreError} when the store could not be used.
   */
  settle(seen: SeenRecord, outcome: Outcome, by: OperatorProof): Promise<Settled>;

  /**
   * Ends the time of a finished record, with an audit row: its key may run as new at once, under another record id. Refuses
   * what is not finished, and what has completed or whose answer is gone unless it is said that it may run again.
   *
   * @throws {TypeError} when an option is unknown, or `by` is blank
   * @throws {StoreError} when the store could not be used; asking again is harmless.
   */
  forget(seen: SeenRecord, by: OperatorProof, options?: ForgetOptions): Promise<Hastened>;

  /**
   * Ends a wait, with an audit row: a worker resumes what is retryable, and the outcome-reconciler looks an unknown up again.
   * Runs nothing that may have happened. Refuses what is finished or under way, and what only its own client can continue.
   *
   * @throws {TypeError} when an option is unknown, or `by` is blank
   * @throws {StoreError} when the store could not be used; asking again is harmless.
   */
  retry(seen: SeenRecord, by: OperatorProof, options?: RetryOptions): Promise<Hastened>;

  /**
   * Decides about one death, with an audit row.
   *
   * @param death of an effect `<id>@<attempt>`, of a message its id
   * @throws {TypeError} when the name is none or `by` is blank
   * @throws {StoreError} when the store could not be used
   * @throws whatever `republish` throws; the message stays dead.
   */
  decide(death: string, decision: DeadDecision, by: OperatorProof): Promise<DecidedDead>;

  /**
   * Removes everything of one tenant: records, steps, effects, messages and early settlements, in small steps. Stop the
   * tenant's requests first: a request that comes again afterwards runs as new. Saying it again after a crash goes on.
   *
   * @throws {TypeError} when an option is out of range, or `by` is blank
   * @throws {StoreError} when the store could not be used.
   */
  deleteTenant(tenant: string, by: OperatorProof, options?: DeleteTenantOptions): Promise<DeletedTenant>;
}

export interface Every<View> {
  readonly items: readonly View[];
  /** Whether there may be others that were not looked at. */
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
    deleteTenant: async (tenant, by, options = {}) => deleteTenant(runtime, tenant, checkedBy(by), options),
    settle: async (seen, outcome, by) => settleSeen(latchkey, seen, outcome, checkedBy(by)),
    ...hastening(runtime),
    async decide(death, decision, by) {
      const name = parseDeadName(death);
      if (name === null) throw new TypeError("decide: name the death of an effect, or the id of a message");
      const verdict: DeadVerdict =
        decision.decision === "discard"
          ? { event: "discard", keepMs: discardedKeepMs }
          : { event: "redrive", doubt: decision.doubt };
      const decided = await decideDead({ runtime, messages, republish }, name, verdict, checkedBy(by));
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
    const done = await hastenSeen(runtime, seen, request, checkedBy(by), dryRun);
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

/** No record has it: asked for the store's time alone. */
const noId = "00000000-0000-0000-0000-000000000000";

function refusedDecision(isGone: boolean, later: string | null): DecidedDead {
  if (!isGone) {
    return {
      kind: "refused",
      title: "Not published again.",
      detail:
        "This process has no `republish`, or another person decided about the message at the same moment. It was not changed by you.",
    };
  }
  return later === null
    ? {
        kind: "refused",
        title: "Nothing was changed. It is not dead any more.",
        detail: "Another person has decided about it, or the other side has confirmed it meanwhile.",
      }
    : {
        kind: "refused",
        title: "Nothing was changed. It has died again since you looked at it.",
        detail: "Its cause may be another one by now. Look at it again before you decide.",
      };
}

function checkedBy({ operator, reason }: OperatorProof): OperatorProof {
  for (const [name, text] of Object.entries({ operator, reason })) {
    if (typeof text !== "string" || text.trim() === "")
      throw new TypeError(`${name} must be a text that is not empty`);
  }
  return { operator, reason };
}
