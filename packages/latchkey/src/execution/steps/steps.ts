/**
 * The steps of one attempt: which are stored, which may begin, and what has stopped the attempt. Steps run one after the
 * other. Once the attempt is stopped, every later step throws the same error, whatever `run` does with it.
 */
import { type EffectRefused, LatchkeyError } from "../../errors.ts";
import type { Answer } from "../../operations/answer.ts";
import type { CallStep, Step } from "../../stores/journal.ts";
import { isStorable } from "../../stores/storable.ts";

/** What has stopped an attempt. */
export type Halt =
  /** The record becomes `unknown`. */
  | {
      readonly kind: "doubt";
      readonly error: LatchkeyError;
      readonly errorCode: string;
      readonly reconcileAfterMs: number | null;
    }
  /** The fence or the lease is lost, or a finished step cannot be read. */
  | { readonly kind: "lost"; readonly error: LatchkeyError }
  /** The outcome of a COMMIT could not be determined: the lease ends, and the attempt is resumed from the journal. */
  | { readonly kind: "unresolved"; readonly error: LatchkeyError }
  /** The last phase has completed the attempt. */
  | {
      readonly kind: "completed";
      readonly error: LatchkeyError;
      readonly answer: Answer;
      readonly expiresAt: number | null;
    };

/** A step about to run. */
export interface BegunStep {
  readonly name: string;
  readonly position: number;
  /** The stored step that this attempt found; null: it is new. */
  readonly stored: Step | null;
}

const nameLengthMax = 200;

export class Steps {
  readonly #stored: ReadonlyMap<string, Step>;
  readonly #called = new Set<string>();
  #positions: number;
  #recorded: boolean;
  #running: Promise<unknown> | null = null;
  #openCall: CallStep["effect"] | null = null;
  readonly #refusals = new WeakSet<EffectRefused>();
  #halt: Halt | null = null;
  #closed = false;
  #abandoned = false;
  #unfinished: string | null = null;

  constructor(stored: readonly Step[]) {
    this.#stored = new Map(stored.map((step) => [step.name, step]));
    this.#positions = stored.reduce((next, { position }) => Math.max(next, position + 1), 0);
    this.#recorded = stored.length > 0;
  }

  get halted(): Halt | null {
    return this.#halt;
  }

  /** Whether anything may be in the journal. */
  get recorded(): boolean {
    return this.#recorded;
  }

  /** Whether more than one step has begun in this life. */
  get areSeveral(): boolean {
    return this.#positions > 1;
  }

  /** Effect of a call that may have happened and has not ended, in this attempt or an earlier one. */
  get openCall(): string | null {
    if (this.#openCall !== null) return this.#openCall;
    const left = this.#notCalled().find((step) => step.kind === "call" && step.state === "started");
    return left?.kind === "call" ? left.effect : null;
  }

  /** The running step; resolves when it has ended in any way. */
  get running(): Promise<unknown> | null {
    return this.#running;
  }

  /** Name of a last phase whose answer was not stored: its work is undone, and the attempt must not complete. */
  get unfinished(): string | null {
    return this.#unfinished;
  }

  noteUnfinished(name: string): void {
    this.#unfinished = name;
  }

  /** Called before anything is written. */
  noteRecorded(): void {
    this.#recorded = true;
  }

  noteOpenCall(effect: string | null): void {
    this.#openCall = effect;
  }

  noteRefusal(refusal: EffectRefused): EffectRefused {
    this.#refusals.add(refusal);
    return refusal;
  }

  /** Whether this is a recorded refusal that `run` has let through. */
  isRefusal(error: unknown): error is EffectRefused {
    return error instanceof Error && this.#refusals.has(error as EffectRefused);
  }

  /** No further step may begin. */
  close(): void {
    this.#closed = true;
  }

  /** The attempt ends without the running step, whose outcome the next attempt reads in the journal. */
  abandon(): void {
    this.#abandoned = true;
  }

  get abandoned(): boolean {
    return this.#abandoned;
  }

  /** Stops the attempt; the first reason stays. Throws its error. */
  halt(halt: Halt): never {
    this.#halt ??= halt;
    throw this.#halt.error;
  }

  complete(answer: Answer, expiresAt: number | null): void {
    const error = new LatchkeyError("attempt-lost", { message: "The last phase has completed the attempt" });
    this.#halt ??= { kind: "completed", error, answer, expiresAt };
  }

  /** Whether a later step than this one has begun, so that `run` has continued past it. */
  isPast(step: Step): boolean {
    return [...this.#stored.values()].some(({ position }) => position > step.position);
  }

  /** The name of a finished step that `run` has left out, if any. */
  leftOut(): string | null {
    return this.#notCalled().find(mustBeCalled)?.name ?? null;
  }

  /**
   * Runs one step.
   *
   * @throws {TypeError} when another one is running, or the name was used before in this attempt.
   * @throws {LatchkeyError} the error that stopped the attempt.
   */
  async run<R>(name: string, act: (step: BegunStep) => Promise<R>): Promise<R> {
    checkName(name);
    if (this.#halt !== null) throw this.#halt.error;
    if (this.#closed) throw new LatchkeyError("attempt-lost", { message: "The attempt is over" });
    if (this.#running !== null)
      throw new TypeError(`Step ${name}: steps run one after the other; await the previous one`);
    if (this.#called.has(name))
      throw new TypeError(`Step ${name}: a name may be used only once in an attempt`);
    const running = this.#begin(name, act);
    this.#running = running.catch(() => {});
    try {
      return await running;
    } finally {
      this.#running = null;
    }
  }

  async #begin<R>(name: string, act: (step: BegunStep) => Promise<R>): Promise<R> {
    const stored = this.#stored.get(name) ?? null;
    const skipped = this.#notCalled().find(
      (step) => mustBeCalled(step) && (stored === null || step.position < stored.position),
    );
    if (skipped !== undefined) this.change(`Step ${name} was called before step ${skipped.name}`);
    this.#called.add(name);
    return act({ name, position: stored?.position ?? this.#positions++, stored });
  }

  /** The list of steps has changed: the record waits for a person. */
  change(what: string): never {
    const error = new LatchkeyError("steps-changed", { message: what });
    return this.halt({ kind: "doubt", error, errorCode: "steps-changed", reconcileAfterMs: null });
  }

  #notCalled(): readonly Step[] {
    return [...this.#stored.values()].filter(({ name }) => !this.#called.has(name));
  }
}

/** A step that provably did not happen may be left out. */
function mustBeCalled(step: Step): boolean {
  return step.kind === "phase" || step.state !== "not_executed";
}

function checkName(name: string): void {
  const fits = typeof name === "string" && name.length > 0 && name.length <= nameLengthMax;
  if (!fits || !isStorable(name)) {
    throw new TypeError(
      `A step's name must have 1 to ${nameLengthMax} characters (got ${JSON.stringify(name)})`,
    );
  }
}
