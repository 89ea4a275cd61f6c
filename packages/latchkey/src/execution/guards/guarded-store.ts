/**
 * The circuit breaker of a store (its state is in `time/circuit-breaker.ts`). `guard` refuses new requests while it is open. The
 * watched store only reports to it and refuses nothing, because attempts that have begun must end.
 */
import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import type { EarlySettlements } from "../../stores/early.ts";
import type { JournalSupport } from "../../stores/journal.ts";
import type { MessageSupport } from "../../stores/messages.ts";
import type { OutboxSupport } from "../../stores/outbox.ts";
import type { SettlementSupport } from "../../stores/settlement.ts";
import type { Store } from "../../stores/store.ts";
import type { OpenPhase, OpenTransaction, TransactionSupport } from "../../stores/transactions.ts";
import { wrapped } from "../../stores/wrapped.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import {
  afterCall,
  type CircuitSettings,
  type CircuitState,
  closed,
  enter,
  leave,
} from "../../time/circuit-breaker.ts";
import { overviewOf } from "../overview.ts";
import { isStoreFailure } from "./store-failure.ts";

export interface Breaker {
  /**
   * Runs calls of the store.
   *
   * @throws {StoreError} `not_sent` while the circuit is open.
   */
  guard<T>(run: () => Promise<T>): Promise<T>;
  /** Watches one call; its first outcome counts. `answered` reports that the store answered before the call ended. */
  watch<T>(call: (answered: () => void) => Promise<T>): Promise<T>;
}

export function createBreaker(
  store: string,
  settings: CircuitSettings,
  clock: Clock,
  emit: (event: LatchkeyEvent) => void,
): Breaker {
  let state: CircuitState = closed;
  const change = (next: CircuitState) => {
    const before = state.kind;
    state = next;
    if (next.kind === "open" && before === "closed") emit({ type: "circuit_opened", store });
    if (next.kind === "closed" && before !== "closed") emit({ type: "circuit_closed", store });
  };
  const note = (ok: boolean, begunMs: number) => {
    const nothingNew = ok && state.kind === "closed" && state.failures === 0;
    if (!nothingNew) change(afterCall(state, settings, { ok, begunMs }, clock.monotonicMs()));
  };
  /** A statement that serves several callers rejects all of them with one error, which counts as one failure. */
  const counted = new WeakSet<StoreError>();
  const noteError = (error: StoreError, begunMs: number) => {
    if (!isStoreFailure(error)) return note(true, begunMs);
    const errors = storeErrorsIn(error);
    if (errors.some((one) => counted.has(one))) return;
    const before = state;
    note(false, begunMs);
    // A call from before the current state does not count, but another caller's may have begun later.
    if (state !== before) for (const one of errors) counted.add(one);
  };
  const guardOpen: Breaker["guard"] = async (run) => {
    const begunMs = clock.monotonicMs();
    const entered = enter(state, settings, begunMs);
    if (!entered.admitted) {
      const retryAfterMs = state.kind === "closed" ? null : Math.max(0, state.untilMs - begunMs);
      throw new StoreError("not_sent", {
        message: `The circuit breaker of store ${store} is open`,
        retryAfterMs,
      });
    }
    change(entered.state);
    try {
      return await run();
    } finally {
      if (entered.probe) change(leave(state, begunMs));
    }
  };
  return {
    guard: (run) => (state.kind === "closed" ? run() : guardOpen(run)),
    async watch(call) {
      const begunMs = clock.monotonicMs();
      let noted = false;
      const answered = () => {
        if (!noted) note(true, begunMs);
        noted = true;
      };
      try {
        const result = await call(answered);
        if (!noted) note(true, begunMs);
        return result;
      } catch (error) {
        // The store was not called, so this is neither a success nor a failure of the store.
        const asked = error instanceof StoreError && !error.overload;
        if (asked && !noted) noteError(error, begunMs);
        throw error;
      }
    },
  };
}

/** The error and the errors of stores that it wraps. What the driver reported is left out: separate failures may share it. */
function storeErrorsIn(error: StoreError): readonly StoreError[] {
  const errors: StoreError[] = [];
  let current: unknown = error;
  while (current instanceof StoreError && !errors.includes(current)) {
    errors.push(current);
    current = current.cause;
  }
  return errors;
}

/** The store with all calls watched. */
export function guardedStore<Tx>(inner: Store<Tx>, { watch }: Breaker): Store<Tx> {
  return wrapped<Store<Tx>>({
    name: inner.name,
    capabilities: inner.capabilities,
    leasesRefused: inner.leasesRefused,
    ownCircuits: inner.ownCircuits,
    keepsTraces: inner.keepsTraces,
    transactions: inner.transactions === null ? null : guardedTransactions(inner.transactions, watch),
    journal: guardedJournal(inner.journal, watch),
    settlement: guardedSettlement(inner.settlement, watch),
    outbox: inner.outbox === null ? null : guardedOutbox(inner.outbox, watch),
    messages: inner.messages === null ? null : guardedMessages(inner.messages, watch),
    // Nothing depends on hints and copies, so their failures say nothing about the store.
    hints: inner.hints,
    finished: inner.finished,
    early: inner.early && guardedEarly(inner.early, watch),
    overview: inner.overview && ((countMax) => watch(() => overviewOf(inner, countMax))),
    // These serve no request.
    tenantData: inner.tenantData,
    countActiveKeys: inner.countActiveKeys?.bind(inner),
    summaries: inner.summaries,
    facts: inner.facts,
    archival: inner.archival,
    cleanAudit: inner.cleanAudit?.bind(inner),
    listAudit: inner.listAudit?.bind(inner),
    examine: inner.examine?.bind(inner),
    close: inner.close?.bind(inner),
    verify: () => watch(() => inner.verify()),
    read: (key) => watch(() => inner.read(key)),
    readById: (tenant, id) => watch(() => inner.readById(tenant, id)),
    create: (life, replaces, terms) => watch(() => inner.create(life, replaces, terms)),
    accept: (life, replaces, expiresAfterMs) => watch(() => inner.accept(life, replaces, expiresAfterMs)),
    claimPending: (wants) => watch(() => inner.claimPending(wants)),
    takeOver: (key, guard, fingerprint, token, terms) =>
      watch(() => inner.takeOver(key, guard, fingerprint, token, terms)),
    renew: (key, id, fence, leaseMs) => watch(() => inner.renew(key, id, fence, leaseMs)),
    end: (key, id, fence, end) => watch(() => inner.end(key, id, fence, end)),
    giveUp: (key, guard, errorCode, reconcileAfterMs) =>
      watch(() => inner.giveUp(key, guard, errorCode, reconcileAfterMs)),
    recordLostTransaction: (life, replaces, errorCode) =>
      watch(() => inner.recordLostTransaction(life, replaces, errorCode)),
    endedLeases: (limit) => watch(() => inner.endedLeases(limit)),
    clean: (limit) => watch(() => inner.clean(limit)),
  });
}

/** An open transaction shows that the store answered; what its work does then says nothing about the store. */
function guardedTransactions<Tx>(
  inner: TransactionSupport<Tx>,
  watch: Breaker["watch"],
): TransactionSupport<Tx> {
  return wrapped<TransactionSupport<Tx>>({
    runOptimistic: inner.runOptimistic && guardedOptimistic(inner.runOptimistic.bind(inner), watch),
    runBatch: inner.runBatch && guardedBatches(inner.runBatch.bind(inner), watch),
    deliver: (request, work) =>
      watch((answered) =>
        inner.deliver(request, (open: OpenPhase<Tx>) => {
          answered();
          return work(open);
        }),
      ),
    phase: (request, work) =>
      watch((answered) =>
        inner.phase(request, (open: OpenPhase<Tx>) => {
          answered();
          return work(open);
        }),
      ),
    run: (request, work) =>
      watch((answered) =>
        inner.run(request, (open: OpenTransaction<Tx>) => {
          answered();
          return work(open);
        }),
      ),
    // Not watched: "in doubt" is a valid result here, also from an unreachable store.
    resolve: (key, id, fence, timeoutMs) => inner.resolve(key, id, fence, timeoutMs),
  });
}

type RunBatch<Tx> = NonNullable<TransactionSupport<Tx>["runBatch"]>;

function guardedBatches<Tx>(runBatch: RunBatch<Tx>, watch: Breaker["watch"]): RunBatch<Tx> {
  return (request, work) =>
    watch((answered) =>
      runBatch(request, (open) => {
        answered();
        return work(open);
      }),
    );
}

type RunOptimistic<Tx> = NonNullable<TransactionSupport<Tx>["runOptimistic"]>;

/** A transaction that was never opened says nothing about the store, unless it failed to begin. */
function guardedOptimistic<Tx>(runOptimistic: RunOptimistic<Tx>, watch: Breaker["watch"]): RunOptimistic<Tx> {
  return async (request, admit, work) => {
    let answered = false;
    const answering: typeof admit = async (seen) => {
      answered = true;
      await watch(async () => {});
      return admit(seen);
    };
    try {
      return await runOptimistic(request, answering, work);
    } catch (error) {
      throw answered ? error : await watch(() => Promise.reject(error));
    }
  };
}

function guardedJournal(inner: JournalSupport, watch: Breaker["watch"]): JournalSupport {
  return {
    read: (key, id) => watch(() => inner.read(key, id)),
    startCall: (owner, intent) => watch(() => inner.startCall(owner, intent)),
    endCall: (owner, call, end) => watch(() => inner.endCall(owner, call, end)),
    // Not watched: it also fails when another transaction holds the record for too long, while the store works.
    refence: (owner, token, leaseMs, timeoutMs) => inner.refence(owner, token, leaseMs, timeoutMs),
    callsByDownstreamKey: (keys) => watch(() => inner.callsByDownstreamKey(keys)),
    finishedCalls: (query) => watch(() => inner.finishedCalls(query)),
  };
}

function guardedSettlement(inner: SettlementSupport, watch: Breaker["watch"]): SettlementSupport {
  return {
    settle: (key, guard, settlement, note) => watch(() => inner.settle(key, guard, settlement, note)),
    hasten: (key, guard, note) => watch(() => inner.hasten(key, guard, note)),
    claimUnknowns: (operations, limit, claimMs) =>
      watch(() => inner.claimUnknowns(operations, limit, claimMs)),
    postpone: (key, guard, afterMs) => watch(() => inner.postpone(key, guard, afterMs)),
    resumable: (operations, limit) => watch(() => inner.resumable(operations, limit)),
    list: (filter) => watch(() => inner.list(filter)),
    audit: (key) => watch(() => inner.audit(key)),
  };
}

function guardedEarly(inner: EarlySettlements, watch: Breaker["watch"]): EarlySettlements {
  return {
    keep: (key, guard, early) => watch(() => inner.keep(key, guard, early)),
    of: (key, recordId) => watch(() => inner.of(key, recordId)),
    due: (limit) => watch(() => inner.due(limit)),
  };
}

function guardedOutbox(inner: OutboxSupport, watch: Breaker["watch"]): OutboxSupport {
  const { finished, byDownstreamKey } = inner;
  return wrapped<OutboxSupport>({
    partOf: inner.partOf?.bind(inner),
    finished: finished && ((query) => watch(() => finished.call(inner, query))),
    byDownstreamKey: byDownstreamKey && ((keys) => watch(() => byDownstreamKey.call(inner, keys))),
    claim: (wants, token, leaseMs) => watch(() => inner.claim(wants, token, leaseMs)),
    start: (claims, leaseMs) => watch(() => inner.start(claims, leaseMs)),
    end: (ends) => watch(() => inner.end(ends)),
    rescue: (limit) => watch(() => inner.rescue(limit)),
    list: (filter) => watch(() => inner.list(filter)),
    ofRecord: (recordId) => watch(() => inner.ofRecord(recordId)),
    confirm: (confirmation, note) => watch(() => inner.confirm(confirmation, note)),
    decide: (id, decision, note) => watch(() => inner.decide(id, decision, note)),
  });
}

function guardedMessages(inner: MessageSupport, watch: Breaker["watch"]): MessageSupport {
  return {
    find: (digest, tenant) => watch(() => inner.find(digest, tenant)),
    count: (facts, count, id) => watch(() => inner.count(facts, count, id)),
    forget: (digest, tenant) => watch(() => inner.forget(digest, tenant)),
    bury: (facts, letter, judged) => watch(() => inner.bury(facts, letter, judged)),
    list: (filter) => watch(() => inner.list(filter)),
    remove: (id, event, note) => watch(() => inner.remove(id, event, note)),
  };
}
