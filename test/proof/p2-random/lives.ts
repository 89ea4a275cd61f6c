/**
 * Judges every write on a record, as it happens, by rules of its own: which edges there are, who may take them and when,
 * and what never changes. Written from the protocol's tables, not from the library's.
 */
import type { LatchkeyRecord, RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { Step } from "../../../packages/latchkey/src/stores/journal.ts";
import type { RowChange } from "../../../packages/latchkey/src/stores/memory/rows.ts";
import type { AuditEntry } from "../../../packages/latchkey/src/stores/settlement.ts";
import type { Config, OperationPlan } from "./config.ts";
import type { Downstream } from "./downstream.ts";
import {
  fenceText,
  isFinishedStep,
  isSameStep,
  keyTextOf,
  type LifeLog,
  storedAnswerText,
} from "./life-log.ts";
import { type Exit, isTrue } from "./proofs.ts";
import type { Report } from "./report.ts";
import type { WorldClock } from "./world-clock.ts";

const edges: ReadonlySet<string> = new Set([
  "retryable>completed",
  "pending>in_progress",
  "pending>failed",
  "in_progress>completed",
  "in_progress>failed",
  "in_progress>retryable",
  "in_progress>unknown",
  "in_progress>in_progress",
  "retryable>in_progress",
  "retryable>unknown",
  "unknown>completed",
  "unknown>retryable",
  "unknown>failed",
  // It waits for longer, or for a person.
  "unknown>unknown",
  "completed>expired",
  "failed>expired",
]);

/** How a life may begin under each execution. */
const beginnings = {
  transaction: ["completed", "unknown"],
  lease: ["in_progress"],
  deferred: ["pending"],
} as const;

export class Lives {
  /** Every life there has been, by its id. */
  readonly all = new Map<string, LifeLog>();
  /** The life of each key that has one now. */
  readonly current = new Map<string, LifeLog>();
  /** Who makes the call that is being carried out; null: it is not an admission or a claim. */
  actor: object | null = null;
  /** Whether a record has effects that are not delivered. */
  hasUndelivered: (recordId: string) => boolean = () => false;
  readonly #config: Config;
  readonly #clock: WorldClock;
  readonly #report: Report;
  readonly #downstream: Downstream;
  /** Records that left `unknown` and whose audit row has not been seen yet. */
  readonly #exits: Exit[] = [];
  #auditsSeen = 0;

  constructor(config: Config, clock: WorldClock, report: Report, downstream: Downstream) {
    this.#config = config;
    this.#clock = clock;
    this.#report = report;
    this.#downstream = downstream;
  }

  of(key: RecordKey): LifeLog | null {
    return this.current.get(keyTextOf(key)) ?? null;
  }

  /** Whether a life that was begun under this token has been given back. */
  isGivenBack(token: string): boolean {
    return [...this.all.values()].some(
      ({ over, record }) => over === "released" && record.fence.token === token,
    );
  }

  written(record: LatchkeyRecord, change: RowChange): void {
    const { trace } = this.#report;
    const text = keyTextOf(record);
    const before = this.current.get(text) ?? null;
    trace.mixText(record.state);
    trace.mix(record.fence.attempt);
    trace.say(() => `    ${text} ${record.id}: ${record.state}, attempt ${record.fence.attempt}`);
    const life = before?.id === record.id ? before : this.#begun(record, before, text);
    if (life === null) return;
    if (life === before) this.#goneOn(life, record, change);
    const resume = change.resumeAfter;
    life.resumeAt = resume ?? null;
    life.record = record;
    life.fences.add(fenceText(record.fence));
    if (change.steps !== undefined) this.#stepped(life, change.steps);
    if (change.recoveryPoint !== undefined) this.#advanced(life, change.recoveryPoint);
    if (record.state === "completed" || record.state === "failed") this.#finished(life, record);
  }

  removed(key: RecordKey): void {
    const life = this.of(key);
    if (life === null) return;
    this.#report.trace.say(() => `    ${keyTextOf(key)} ${life.id}: removed from ${life.record.state}`);
    this.#report.trace.mix(77);
    this.current.delete(keyTextOf(key));
    const { record } = life;
    if (record.state === "in_progress") {
      life.over = "released";
      if (life.steps.length > 0) this.#fail("I10", life, "released with steps recorded");
      if (life.nonces.size > 0) this.#fail("I1", life, "released although it has committed rows");
      if (life.plan.shape !== "rerun" && this.#downstream.directOf(life.id).length > 0) {
        this.#fail("I1", life, "released although it took effect");
      }
      return;
    }
    life.over = "forgotten";
    if (record.state !== "expired") {
      this.#fail("I12", life, `removed from ${record.state}`);
      return;
    }
    if (this.#clock.nowMs < record.forgetAt) this.#fail("I12", life, "forgotten before its time");
    if (this.hasUndelivered(life.id))
      this.#fail("I12", life, "forgotten with effects that are not delivered");
    this.#report.reach("a key was forgotten");
  }

  /** At the end of each step: what left `unknown` did so with its audit row, whose proof is true. */
  checkAudit(audit: readonly AuditEntry[]): void {
    while (this.#exits.length > 0 || this.#auditsSeen < audit.length) {
      const [exit, entry] = [this.#exits.shift(), audit[this.#auditsSeen]];
      this.#auditsSeen += 1;
      if (entry?.effectId != null) continue;
      if (exit === undefined || entry?.recordId !== exit.life.id) {
        const what = exit === undefined ? "audit row without a settlement" : "settled without an audit row";
        this.#report.fail("I6", `${what}: ${exit?.life.id ?? entry?.recordId}`);
        return;
      }
      const { proof, event } = entry;
      this.#report.reach(`settled: ${event}, ${proof}`);
      if (!isTrue(this.#downstream, exit, entry)) {
        this.#fail("I6", exit.life, `settled to ${exit.to} by ${event}: its proof ${proof} is not true`);
      }
    }
  }

  #fail(invariant: string, life: LifeLog, what: string): void {
    this.#report.fail(invariant, `${keyTextOf(life.record)} ${life.id}: ${what}`);
  }

  #planOf(name: string): OperationPlan | null {
    return this.#config.operations.find((plan) => plan.name === name) ?? null;
  }

  #begun(record: LatchkeyRecord, before: LifeLog | null, text: string): LifeLog | null {
    const plan = this.#planOf(record.operation);
    if (plan === null || this.all.has(record.id)) {
      this.#report.fail("I13", `${text}: ${plan === null ? "unknown operation" : "an id used again"}`);
      return null;
    }
    const life: LifeLog = {
      id: record.id,
      plan,
      record,
      fences: new Set(),
      lapsed: new Set(),
      steps: [],
      finishedBy: new Map(),
      recoveryPoint: null,
      resumeAt: null,
      owner: this.actor,
      answer: null,
      finished: null,
      over: null,
      nonces: new Set(),
    };
    this.all.set(life.id, life);
    this.current.set(text, life);
    const states: readonly string[] = beginnings[plan.execution];
    if (!states.includes(record.state)) this.#fail("I5", life, `a life that begins as ${record.state}`);
    if (record.fence.attempt !== 1) this.#fail("I13", life, "a life that begins with a later attempt");
    if (before !== null) this.#replaced(life, before, plan);
    return life;
  }

  #replaced(life: LifeLog, before: LifeLog, { reuse }: OperationPlan): void {
    before.over = "replaced";
    const { finished } = before;
    if (finished === null) {
      this.#fail("I1", life, `begins while ${before.id} is ${before.record.state}`);
      return;
    }
    const now = this.#clock.nowMs;
    const mayRun = now >= finished.forgetAt || (reuse === "execute" && now >= finished.expiresAt);
    if (!mayRun) this.#fail("I1", life, `begins while ${before.id} is remembered`);
    this.#report.reach("an expired key ran again");
  }

  #goneOn(life: LifeLog, record: LatchkeyRecord, change: RowChange): void {
    const before = life.record;
    const edge = `${before.state}>${record.state}`;
    if (!edges.has(edge)) this.#fail("I5", life, `no such edge: ${edge}`);
    const same =
      before.operation === record.operation &&
      before.principal === record.principal &&
      before.createdAt === record.createdAt &&
      Buffer.compare(before.fingerprint.digest, record.fingerprint.digest) === 0;
    if (!same) this.#fail("I2", life, "a life whose request has changed");
    this.#checkFence(life, record, edge);
    const now = this.#clock.nowMs;
    if (edge.endsWith(">expired") && now < (life.finished?.expiresAt ?? 0)) {
      this.#fail("I12", life, "purged before its time");
    }
    if (edge === "pending>failed") {
      this.#report.reach("a pending request timed out");
      if (before.state === "pending" && now < before.expiresAt) {
        this.#fail("I12", life, "abandoned before its time");
      }
    }
    if (before.state === "unknown" && record.state !== "unknown") {
      this.#exits.push({ life, to: record.state, steps: life.steps });
      this.#report.reach(`unknown settled to ${record.state}`);
      const left = (change.steps ?? life.steps).some(
        (step) => step.kind === "call" && step.state === "started" && life.plan.kind !== "provider",
      );
      if (left && record.state === "retryable") this.#fail("I6", life, "goes on with a call in doubt");
    }
    if (edge === "in_progress>unknown") this.#report.reach("a record became unknown");
    if (edge === "in_progress>retryable") this.#report.reach("a record became retryable");
  }

  #checkFence(life: LifeLog, record: LatchkeyRecord, edge: string): void {
    const before = life.record;
    const text = fenceText(record.fence);
    if (before.state === "in_progress" && this.#clock.nowMs >= before.leaseEndsAt) {
      life.lapsed.add(fenceText(before.fence));
    }
    if (text === fenceText(before.fence)) {
      if (edge === "retryable>in_progress" || edge === "pending>in_progress") {
        this.#fail("I13", life, "an attempt begins under the fence of the one before");
      }
      return;
    }
    if (life.fences.has(text)) this.#fail("I13", life, `fence ${text} is issued again`);
    const raised = record.fence.attempt - before.fence.attempt;
    if (edge === "in_progress>in_progress" && raised === 1 && before.state === "in_progress") {
      this.#report.reach("a takeover happened");
      if (this.#clock.nowMs < before.leaseEndsAt) this.#fail("I4", life, "taken over before its lease ended");
      if (life.plan.leaseEnd === "reconcile") this.#fail("I6", life, "taken over under reconcile");
      if (record.fence.attempt > life.plan.attemptsMax) this.#fail("I6", life, "more attempts than allowed");
    } else if (edge === "in_progress>in_progress" && raised === 0) {
      this.#report.reach("an owner took a new token");
    } else {
      const begins = edge === "retryable>in_progress" || edge.startsWith("retryable>");
      const expected = begins ? 1 : 0;
      if (raised !== expected) this.#fail("I13", life, `${edge} raised the attempt by ${raised}`);
      if (edge === "retryable>in_progress") this.#report.reach("a retryable record went on");
    }
    if (this.actor !== null) life.owner = this.actor;
  }

  #stepped(life: LifeLog, steps: readonly Step[]): void {
    for (const was of life.steps) {
      const is = steps.find(({ name }) => name === was.name);
      if (is === undefined) {
        this.#fail("I10", life, `step ${was.name} has gone`);
        return;
      }
      if (isFinishedStep(was) && !isSameStep(was, is)) {
        this.#fail("I10", life, `finished step ${was.name} was changed`);
        return;
      }
      if (was.kind === "call" && is.kind === "call") this.#checkCall(life, was, is);
    }
    for (const step of steps) {
      if (isFinishedStep(step) && !life.finishedBy.has(step.name)) {
        life.finishedBy.set(step.name, life.record.fence);
      }
    }
    life.steps = steps;
  }

  #checkCall(life: LifeLog, was: Extract<Step, { kind: "call" }>, is: Extract<Step, { kind: "call" }>): void {
    if (Buffer.compare(was.input, is.input) !== 0)
      this.#fail("I7", life, `call ${is.name} has another input`);
    const raised = is.generation - was.generation;
    const sameKey = is.downstreamKey === was.downstreamKey;
    if (raised < 0 || sameKey !== (raised === 0)) this.#fail("I7", life, `call ${is.name} has another key`);
    if (raised > 0) {
      this.#report.reach("a closed call got its next generation");
      if (!this.#downstream.isClosed(was.downstreamKey)) {
        this.#fail("I6", life, `call ${is.name} was reopened without being closed`);
      }
    }
  }

  #advanced(life: LifeLog, recoveryPoint: string | null): void {
    const there = life.steps.find(({ name }) => name === recoveryPoint);
    if (there === undefined || !isFinishedStep(there)) {
      this.#fail("I10", life, `recovery point ${recoveryPoint} is no finished step`);
    }
    const behind = life.steps.find(({ name }) => name === life.recoveryPoint);
    if (behind !== undefined && there !== undefined && there.position < behind.position) {
      this.#fail("I10", life, `recovery point went back from ${behind.name} to ${there.name}`);
    }
    life.recoveryPoint = recoveryPoint;
  }

  #finished(life: LifeLog, record: Extract<LatchkeyRecord, { state: "completed" | "failed" }>): void {
    const { expiresAt, forgetAt } = record;
    life.finished = { expiresAt, forgetAt };
    life.answer = record.answer === null ? null : storedAnswerText(record.answer);
    if (record.answer === null) return;
    const { retentionMs, forgetAfterMs } = life.plan;
    const now = this.#clock.nowMs;
    if (expiresAt !== now + retentionMs || forgetAt !== now + forgetAfterMs) {
      this.#fail("I12", life, `kept until ${expiresAt - now} and ${forgetAt - now} ms from now`);
    }
  }
}
