/**
 * The store as one process reaches it once its calls get through: whether each guarded write was let through or refused
 * rightly, by what the record was at that moment.
 */
import type { Fence, Guard, RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { Owner } from "../../../packages/latchkey/src/stores/journal.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type { EffectLog } from "./effect-log.ts";
import { fenceText, keyTextOf, type LifeLog } from "./life-log.ts";
import type { Lives } from "./lives.ts";
import type { Report } from "./report.ts";
import type { WorldClock } from "./world-clock.ts";

export interface Recording {
  readonly store: Store<MemoryTransaction>;
  readonly lives: Lives;
  readonly effects: EffectLog;
  readonly clock: WorldClock;
  readonly report: Report;
}

type Held = {
  readonly id: string;
  readonly fence: Fence;
  readonly state: string;
  readonly now: number;
} | null;

export function recorded(recording: Recording, process: object): Store<MemoryTransaction> {
  const { store } = recording;
  const judge = new Judge(recording, process);
  return {
    ...store,
    hints: null,
    transactions: transactionsOf(store, judge),
    journal: {
      ...store.journal,
      startCall: (owner, intent) =>
        judge.owned("startCall", owner, () => store.journal.startCall(owner, intent)),
      endCall: (owner, call, end) =>
        judge.owned("endCall", owner, () => store.journal.endCall(owner, call, end)),
      refence: (owner, token, leaseMs, timeoutMs) =>
        judge.refenced(owner, token, () => store.journal.refence(owner, token, leaseMs, timeoutMs)),
    },
    settlement: settlementOf(store, judge),
    outbox: outboxOf(store, judge),
    create: (life, replaces, terms) =>
      judge.guarded("create", life, replaces, () => store.create(life, replaces, terms)),
    accept: (life, replaces, expiresAfterMs) =>
      judge.guarded("accept", life, replaces, () => store.accept(life, replaces, expiresAfterMs)),
    claimPending: (wants) => judge.acting(() => store.claimPending(wants)),
    takeOver: (key, guard, fingerprint, token, terms) =>
      judge.guarded("takeOver", key, guard, () => store.takeOver(key, guard, fingerprint, token, terms)),
    renew: (key, id, fence, leaseMs) =>
      judge.owned("renew", { key, id, fence }, () => store.renew(key, id, fence, leaseMs)),
    end: (key, id, fence, end) =>
      judge.owned("end", { key, id, fence }, () => store.end(key, id, fence, end)),
    giveUp: (key, guard, errorCode, afterMs) =>
      judge.givenUp(key, guard, () => store.giveUp(key, guard, errorCode, afterMs)),
    recordLostTransaction: (life, replaces, errorCode) =>
      judge.guarded("recordLostTransaction", life, replaces, () =>
        store.recordLostTransaction(life, replaces, errorCode),
      ),
  };
}

function transactionsOf(
  { transactions }: Store<MemoryTransaction>,
  judge: Judge,
): Store<MemoryTransaction>["transactions"] {
  if (transactions === null) throw new TypeError("The memory store has transactions");
  return {
    resolve: (...given) => judge.resolved(transactions.resolve(...given)),
    run: (request, work) => transactions.run(request, work),
    async runBatch(request, work) {
      if (transactions.runBatch === undefined) throw new TypeError("The memory store has batches");
      let records = 0;
      const outcome = await transactions.runBatch(request, async (open) => {
        const worked = await work(open);
        if (worked.end === "commit") records = worked.records.length;
        return worked;
      });
      judge.batchEnded(records, outcome.kind);
      return outcome;
    },
    async phase(request, work) {
      let step = "";
      const outcome = await transactions.phase(request, async (open) => {
        const worked = await work(open);
        if (worked.end === "commit") step = worked.step.name;
        return worked;
      });
      judge.phaseEnded(request.owner, step, outcome.kind);
      return outcome;
    },
    deliver: (request, work) => transactions.deliver(request, work),
  };
}

function settlementOf(
  { settlement }: Store<MemoryTransaction>,
  judge: Judge,
): Store<MemoryTransaction>["settlement"] {
  return {
    ...settlement,
    settle: (key, guard, how, note) =>
      judge.guarded("settle", key, guard, () => settlement.settle(key, guard, how, note)),
    postpone: (key, guard, afterMs) =>
      judge.guarded("postpone", key, guard, () => settlement.postpone(key, guard, afterMs)),
  };
}

function outboxOf({ outbox }: Store<MemoryTransaction>, judge: Judge): Store<MemoryTransaction>["outbox"] {
  if (outbox === null) throw new TypeError("The memory store has an outbox");
  return {
    ...outbox,
    start: (claims, leaseMs) => judge.claimed("startEffects", claims, outbox.start(claims, leaseMs)),
    end: (ends) => judge.claimed("endEffects", ends, outbox.end(ends)),
    rescue: (limit) => judge.rescued(() => outbox.rescue(limit)),
  };
}

class Judge {
  readonly #recording: Recording;
  readonly #process: object;

  constructor(recording: Recording, process: object) {
    this.#recording = recording;
    this.#process = process;
  }

  /** What `act` admits belongs to this process. */
  acting<T>(act: () => T): T {
    const { lives } = this.#recording;
    lives.actor = this.#process;
    try {
      // A store's call is one step that ends before its promise is handed back.
      return act();
    } finally {
      lives.actor = null;
    }
  }

  /** A write that only the owner of a running attempt may make. */
  async owned<T>(port: string, { key, id, fence }: Owner, act: () => Promise<T>): Promise<T> {
    const held = this.#held(key);
    const answer = await this.acting(act);
    const done = answer !== null && answer !== false;
    const holds = held?.id === id && held.state === "in_progress" && sameFence(held.fence, fence);
    if (done && !holds) this.#fail("I4", port, key, `let a stale owner through (${fenceText(fence)})`);
    if (!done && !holds) this.#recording.report.reach(`a stale ${port} was refused`);
    return answer;
  }

  async refenced<T>({ key, id, fence }: Owner, token: string, act: () => Promise<T>): Promise<T> {
    const held = this.#held(key);
    const answer = await this.acting(act);
    const own = { attempt: fence.attempt, token };
    const holds =
      held?.id === id &&
      held.state === "in_progress" &&
      (sameFence(held.fence, fence) || sameFence(held.fence, own));
    if (answer !== null && !holds) this.#fail("I4", "refence", key, "let a stale owner through");
    return answer;
  }

  /** A write on the version of the record that it was decided on. */
  async guarded<T>(port: string, key: RecordKey, guard: Guard | null, act: () => Promise<T>): Promise<T> {
    const held = this.#held(key);
    const before = this.#life(key)?.record;
    if (port === "giveUp" || port === "takeOver") this.#checkEnded(port, key, guard);
    const asked = this.acting(act);
    const isSame = this.#life(key)?.record === before;
    const answer = await asked;
    if (answer === null || answer === false) {
      this.#recording.report.reach(`a lost race: ${port}`);
      return answer;
    }
    // A settlement that is sent again is answered by its audit row, and changes nothing.
    if (port === "settle" && isSame) return answer;
    const holds =
      guard === null
        ? held === null
        : held?.id === guard.id && held.state === guard.state && sameFence(held.fence, guard.fence);
    if (!holds) this.#fail("I5", port, key, `wrote over ${held?.state ?? "nothing"}`);
    return answer;
  }

  async givenUp(key: RecordKey, guard: Guard, act: () => Promise<boolean>): Promise<boolean> {
    const answer = await this.guarded("giveUp", key, guard, act);
    if (answer) this.#recording.report.reach("a dead attempt was given up");
    return answer;
  }

  /** Whoever names a fence here has seen that the lease under it had ended. */
  #checkEnded(port: string, key: RecordKey, guard: Guard | null): void {
    const life = this.#life(key);
    const record = life?.record;
    if (guard === null || record?.state !== "in_progress" || record.id !== guard.id) return;
    if (!sameFence(record.fence, guard.fence) || this.#recording.clock.nowMs >= record.leaseEndsAt) return;
    if (life?.lapsed.has(fenceText(guard.fence))) return;
    this.#fail("I4", port, key, "was asked for while the lease of its owner holds");
  }

  /** The write of the step has noted the fence that it met. */
  phaseEnded({ key, id, fence }: Owner, step: string, outcome: string): void {
    const { report, lives } = this.#recording;
    if (outcome === "lost") report.reach("a stale phase was refused");
    if (outcome !== "committed") return;
    const met = lives.all.get(id)?.finishedBy.get(step);
    if (met === undefined || !sameFence(met, fence)) {
      this.#fail("I4", "commitPhase", key, "let a stale owner through");
    }
  }

  batchEnded(records: number, outcome: string): void {
    const { report } = this.#recording;
    if (outcome === "committed" && records > 1) report.reach("requests shared a COMMIT");
  }

  async resolved<T extends string>(asked: Promise<T>): Promise<T> {
    const answer = await asked;
    this.#recording.report.reach(`COMMIT in doubt resolved to ${answer}`);
    return answer;
  }

  /** Guarded by the claim. */
  async claimed<T extends readonly string[]>(
    port: string,
    claims: readonly { readonly id: string; readonly fence: Fence }[],
    act: Promise<T>,
  ): Promise<T> {
    const { effects, report } = this.#recording;
    const answer = await act;
    for (const { id, fence } of claims) {
      if (!answer.includes(id)) {
        report.reach(`a stale ${port} was refused`);
        continue;
      }
      const row = effects.rows.get(id);
      if (row !== undefined && !sameFence(row.effect.fence, fence)) {
        report.fail("I4", `${port} let a stale claim on ${id} through`);
      }
    }
    return answer;
  }

  /** Claims that hold stay as they are. The store's call is one step that ends before its promise is handed back. */
  rescued<T>(act: () => Promise<T>): Promise<T> {
    const { effects, clock, report } = this.#recording;
    const held = [...effects.rows.values()].filter((row) => (row.leaseEndsAt ?? 0) > clock.nowMs);
    const answer = act();
    const taken = held.find((row) => effects.rows.get(row.effect.id) !== row);
    if (taken !== undefined) report.fail("I4", `the claim on ${taken.effect.id} was ended while it holds`);
    return answer;
  }

  #held(key: RecordKey): Held {
    const life = this.#life(key);
    if (life === null) return null;
    const { id, fence, state } = life.record;
    return { id, fence, state, now: this.#recording.clock.nowMs };
  }

  #life(key: RecordKey): LifeLog | null {
    return this.#recording.lives.of(key);
  }

  #fail(invariant: string, port: string, key: RecordKey, what: string): void {
    this.#recording.report.fail(invariant, `${port} of ${keyTextOf(key)} ${what}`);
  }
}

function sameFence(left: Fence, right: Fence): boolean {
  return left.attempt === right.attempt && left.token === right.token;
}
