/** One transaction of several submissions, and the outcome of each. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { AdmissionRequest } from "../../engine/decide.ts";
import { isLatchkeyError, StoreError } from "../../errors.ts";
import type { Operation } from "../../operations/operation.ts";
import { isSerializationFailure } from "../../sql/sql-state.ts";
import type {
  Admission,
  BatchedRecord,
  BatchOutcome,
  BatchWork,
  OpenBatch,
  TransactionOutcome,
  TransactionPart,
  TransactionWork,
} from "../../stores/transactions.ts";
import { isCodecTimeout } from "../bounded-codec.ts";
import { isStoreFailure } from "../guards/store-failure.ts";
import type { Runtime } from "../runtime.ts";
import { admit, newLife } from "./admit.ts";
import type { Job, Ran, ResolvedCommit, RoundState } from "./job.ts";
import { runHandler } from "./run-handler.ts";
import { resolveCommit } from "./transaction-ends.ts";

type Outcome = TransactionOutcome<Ran>;

export interface BatchMember<Tx> {
  readonly job: Job<Tx>;
  readonly request: AdmissionRequest;
  readonly roundState: RoundState;
  /** Runs its handler in its caller's asynchronous context, which carries spans and the user's own values. */
  readonly inContext: ReturnType<typeof AsyncLocalStorage.snapshot>;
  /** Null: it needs a separate transaction. */
  readonly decide: (outcome: Outcome | null) => void;
  readonly fail: (error: unknown) => void;
}

export function memberOf<Tx>(job: Job<Tx>, request: AdmissionRequest, roundState: RoundState) {
  const { promise: decided, resolve: decide, reject: fail } = Promise.withResolvers<Outcome | null>();
  const inContext = AsyncLocalStorage.snapshot();
  const member: BatchMember<Tx> = { job, request, roundState, inContext, decide, fail };
  return { member, decided };
}

/** The state of a member inside the transaction. */
type MemberState =
  /** Its turn has not come. */
  | { readonly kind: "waiting" }
  /** Nothing ran for it, and nothing will in this transaction. */
  | { readonly kind: "alone" }
  | { readonly kind: "refused"; readonly error: unknown }
  /** Decided without its handler, from committed data: true whatever the outcome of the transaction. */
  | { readonly kind: "decided"; readonly ran: Ran }
  /** Its handler is running, or its writes could not be undone. */
  | { readonly kind: "running" }
  /** Its handler has not ended in time, or the codec has not. */
  | { readonly kind: "timed_out"; readonly ran: Ran }
  /** It has written its part, and its record will be committed. */
  | { readonly kind: "kept"; readonly ran: Ran; readonly id: string }
  /** Its writes are undone. The outcome holds only if the other parts are committed, because its handler may have read their writes. */
  | { readonly kind: "undone"; readonly outcome: Outcome };

/** How the transaction continues after a member. */
type Next = "on" | "commit" | "rollback" | "abandon";

/** Each effect is a statement before COMMIT. */
const effectsMax = 1_000;

export class SharedTransaction<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #operation: Operation;
  readonly #members: readonly BatchMember<Tx>[];
  readonly #states: MemberState[];
  readonly #records: BatchedRecord[] = [];
  #effects = 0;
  #stopped = false;

  constructor(runtime: Runtime<Tx>, operation: Operation, members: readonly BatchMember<Tx>[]) {
    this.#runtime = runtime;
    this.#operation = operation;
    this.#members = members;
    this.#states = members.map(() => ({ kind: "waiting" }));
  }

  /** No further member gets its turn; members that have run are committed. */
  stop(): void {
    this.#stopped = true;
  }

  /** Decides its members, except those it returns, whose turn has not come. Never rejects. */
  async run(): Promise<readonly BatchMember<Tx>[]> {
    const { isolation, transactionLimitMs: idleLimitMs } = this.#operation.settings;
    const keys = this.#members.map(({ job }) => job.submission.key);
    const { runBatch } = this.#runtime.store.transactions ?? {};
    try {
      if (runBatch === undefined) throw new TypeError(`Store ${this.#runtime.store.name} has no batches`);
      const outcome = await runBatch<boolean>({ keys, isolation, idleLimitMs }, (open) => this.#work(open));
      return this.#decide(outcome);
    } catch (error) {
      return this.#failed(error);
    }
  }

  async #work(open: OpenBatch<Tx>): Promise<BatchWork<boolean>> {
    for (const [place, member] of this.#members.entries()) {
      if (this.#stopped) break;
      const next = await this.#next(open, place, member);
      if (next === "commit") break;
      if (next !== "on") return { end: next, value: false };
    }
    const records = this.#records;
    return records.length === 0 ? { end: "rollback", value: true } : { end: "commit", value: true, records };
  }

  async #next(open: OpenBatch<Tx>, place: number, member: BatchMember<Tx>): Promise<Next> {
    this.#states[place] = { kind: "alone" };
    const admission = open.admissions[place] ?? null;
    const begun = admission === null ? null : await this.#admitted(place, member, admission);
    if (begun === null) return "on";
    const part = open.part();
    this.#states[place] = { kind: "running" };
    try {
      const work = await begun(part);
      return await this.#after(place, part, work);
    } catch (error) {
      if (!isCodecTimeout(error)) return this.#undo(place, part, threw(error));
      part.revoke();
      this.#states[place] = { kind: "timed_out", ran: { kind: "threw", error } };
      this.#separateFrom(place + 1);
      return "rollback";
    }
  }

  /** The codec may be as slow for the others: they wait side by side instead of one after the other. */
  #separateFrom(place: number): void {
    this.#states.fill({ kind: "alone" }, place);
  }

  /** Null: its handler does not run in this transaction. */
  async #admitted(place: number, member: BatchMember<Tx>, admission: Admission) {
    const { job, request, roundState, inContext } = member;
    try {
      const admitted = await admit(job, admission, request, (retried, now) =>
        newLife(job, retried, request.token, now),
      );
      if (admitted.kind === "ends") {
        this.#states[place] = { kind: "decided", ran: admitted.ran };
        return null;
      }
      const { admittedLife } = admitted;
      if (admittedLife.replaces !== null) return null;
      roundState.admitted = admittedLife;
      return (part: TransactionPart<Tx>) =>
        inContext(() =>
          runHandler(job, part, admittedLife.life, admission.reading.now, { result: () => admitted }),
        );
    } catch (error) {
      this.#states[place] = { kind: "refused", error };
      return null;
    }
  }

  async #after(place: number, part: TransactionPart<Tx>, work: TransactionWork<Ran>): Promise<Next> {
    // A rollback will find that the transaction has ended, and report it.
    if (part.state() === "ended") return "rollback";
    const { value: ran } = work;
    if (work.end === "abandon") {
      this.#states[place] = { kind: "timed_out", ran };
      return "abandon";
    }
    if (work.end === "rollback") return this.#undo(place, part, { kind: "rolled_back", value: ran });
    if (part.state() === "failed") {
      const error = new Error("A statement failed, and its error was swallowed");
      return this.#undo(place, part, { kind: "refused", value: ran, because: "aborted", error });
    }
    if (work.undoWrites) await part.undo();
    const { life, answer, retention, effects } = work;
    this.#states[place] = { kind: "kept", ran, id: life.id };
    this.#records.push({ life, answer, retention, effects });
    this.#effects += effects.length;
    return part.leavesBehind() || this.#effects >= effectsMax ? "commit" : "on";
  }

  async #undo(place: number, part: TransactionPart<Tx>, outcome: Outcome): Promise<Next> {
    part.revoke();
    const { value } = outcome;
    // After this failure the database may refuse all further statements, or has undone more than this part.
    if (value.kind === "threw" && isSerializationFailure(value.error)) return "rollback";
    try {
      await part.undo();
    } catch {
      return "rollback";
    }
    this.#states[place] = { kind: "undone", outcome };
    return "on";
  }

  #failed(error: unknown): readonly BatchMember<Tx>[] {
    if (isLatchkeyError(error) && error.code === "transaction-changed")
      return this.#decide({ kind: "changed" });
    const isOpened = this.#states.some(({ kind }) => kind !== "waiting");
    if (isOpened) return this.#decide({ kind: "lost" });
    // One member may be at fault, with a record that cannot be read, for example: in separate transactions only that one fails.
    const separately = this.#members.length > 1 && !isOfStore(error);
    for (const { decide, fail } of this.#members) {
      if (separately) decide(null);
      else fail(error);
    }
    return [];
  }

  #decide(end: End): readonly BatchMember<Tx>[] {
    if (end.kind === "in_doubt") this.#resolveOnce();
    return this.#members.filter((member, place) => {
      const state = this.#states[place] ?? { kind: "alone" };
      if (state.kind === "refused") member.fail(state.error);
      else if (state.kind !== "waiting") member.decide(outcomeOf(state, end));
      return state.kind === "waiting";
    });
  }

  /** The COMMIT is the same for all: 64 look-ups at once could wait for the pool until their time is over. */
  #resolveOnce(): void {
    let resolved: Promise<ResolvedCommit> | null = null;
    for (const [place, { job, roundState }] of this.#members.entries()) {
      const state = this.#states[place];
      if (state?.kind !== "kept" || state.ran.kind !== "answered") continue;
      resolved ??= resolveCommit(job, state.ran, roundState.startedAtMs);
      roundState.resolved = resolved;
    }
  }
}

/** How the transaction ended; its value is whether every part that ran is as its member left it. */
type End =
  | Exclude<BatchOutcome<boolean>, { readonly kind: "changed" | "lost" }>
  | { readonly kind: "changed" | "lost" };

function outcomeOf(
  state: Exclude<MemberState, { readonly kind: "waiting" | "refused" }>,
  end: End,
): Outcome | null {
  switch (state.kind) {
    case "alone":
      return null;
    case "decided":
      return { kind: "rolled_back", value: state.ran };
    case "timed_out":
      return end.kind === "rolled_back"
        ? { kind: "rolled_back", value: state.ran }
        : changedOr(end, state.ran);
    case "running":
      return changedOr(end, { kind: "again" });
    case "undone":
      return end.kind === "committed" || (end.kind === "rolled_back" && end.value) ? state.outcome : null;
    case "kept":
      if (end.kind === "in_doubt") return { ...end, value: state.ran };
      if (end.kind !== "committed") return changedOr(end, state.ran);
      return { kind: "committed", value: state.ran, expiresAt: end.expiresAt.get(state.id) ?? Number.NaN };
    default:
      return state satisfies never;
  }
}

/** If a handler ended the transaction, its parts may have been committed, so they do not run again. */
function changedOr({ kind }: End, value: Ran): Outcome | null {
  return kind === "changed" ? { kind, value } : null;
}

/** Then separate transactions would fail, too, and add to the load of the store or of its pool. */
function isOfStore(error: unknown): boolean {
  return isStoreFailure(error) || (error instanceof StoreError && error.overload);
}

function threw(error: unknown): Outcome {
  return { kind: "rolled_back", value: { kind: "threw", error } };
}
