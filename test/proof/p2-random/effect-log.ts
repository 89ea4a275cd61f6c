/** Judges every write on the outbox, and that effects and business rows are there exactly with their transaction. */

import type { EffectRow } from "../../../packages/latchkey/src/stores/memory/effects.ts";
import type { BusinessRow } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Downstream } from "./downstream.ts";
import { nonceOf } from "./life-log.ts";
import type { Lives } from "./lives.ts";
import type { Report } from "./report.ts";
import type { WorldClock } from "./world-clock.ts";

const edges: ReadonlySet<string> = new Set([
  "pending>claimed",
  // A claim that is the start, too.
  "pending>started",
  "claimed>started",
  "claimed>pending",
  "claimed>delivered",
  "claimed>dead",
  "claimed>claimed",
  "started>pending",
  "started>delivered",
  "started>dead",
  "started>started",
]);

/** A row that a handler or a phase of the world inserts. */
export interface WorldRow extends BusinessRow {
  readonly life: string;
  /** Empty in a transaction; `delivered` where a delivery inserts it. */
  readonly step: string;
  /** Of this run of the handler. */
  readonly nonce: number;
  /** Which of the bodies it was run with; null where it does not know. */
  readonly digest: number | null;
  /** Ids of the effects that its transaction enqueued. */
  readonly enqueued: readonly string[];
}

export class EffectLog {
  readonly rows = new Map<string, EffectRow>();
  /** Committed business rows since the last step. */
  readonly #fresh: WorldRow[] = [];
  readonly #freshEffects: EffectRow[] = [];
  readonly #committed = new Map<number, WorldRow>();
  readonly #perStep = new Map<string, number>();
  readonly #clock: WorldClock;
  readonly #report: Report;
  readonly #lives: Lives;
  readonly #downstream: Downstream;

  constructor(clock: WorldClock, report: Report, lives: Lives, downstream: Downstream) {
    this.#clock = clock;
    this.#report = report;
    this.#lives = lives;
    this.#downstream = downstream;
  }

  inserted(row: BusinessRow): void {
    this.#fresh.push(row as WorldRow);
  }

  written(row: EffectRow): void {
    const { effect } = row;
    const { trace } = this.#report;
    trace.mixText(effect.state);
    trace.say(
      () => `    effect ${effect.effect} of ${effect.recordId}: ${effect.state}, sends ${effect.sends}`,
    );
    const before = this.rows.get(effect.id);
    this.rows.set(effect.id, row);
    if (before === undefined) {
      this.#freshEffects.push(row);
      return;
    }
    this.#checkEdge(before, row);
    if (Buffer.compare(before.effect.input, effect.input) !== 0) {
      this.#report.fail("I7", `effect ${effect.id} has another input`);
    }
    const sameKey = before.effect.downstreamKey === effect.downstreamKey;
    if (sameKey !== (before.effect.generation === effect.generation)) {
      this.#report.fail("I7", `effect ${effect.id} has another key in generation ${effect.generation}`);
    }
    if (!sameKey && !this.#downstream.isClosed(before.effect.downstreamKey)) {
      this.#report.fail("I6", `effect ${effect.id} was reopened without being closed`);
    }
  }

  removed(id: string): void {
    const row = this.rows.get(id);
    this.rows.delete(id);
    if (row === undefined) return;
    const due =
      row.effect.state === "delivered" && row.removeAt !== null && this.#clock.nowMs >= row.removeAt;
    if (!due) this.#report.fail("I12", `effect ${id} was removed in state ${row.effect.state}`);
  }

  /** Whether a record has effects that are neither delivered nor gone. */
  undelivered(recordId: string): boolean {
    for (const { effect } of this.rows.values()) {
      if (effect.recordId === recordId && effect.state !== "delivered") return true;
    }
    return false;
  }

  /** Whether a record has effects that are neither delivered nor dead. */
  open(recordId: string): boolean {
    for (const { effect } of this.rows.values()) {
      const isOver = effect.state === "delivered" || effect.state === "dead";
      if (effect.recordId === recordId && !isOver) return true;
    }
    return false;
  }

  /** Whether it waits for one that is dead, and so for a person. */
  heldUp(row: EffectRow): boolean {
    return this.#ahead(row)?.effect.state === "dead";
  }

  /** Whether it waits for the other ones of its aggregate. */
  isBehind(row: EffectRow): boolean {
    return this.#ahead(row) !== null;
  }

  /** Of the same aggregate, the first that was written earlier and is not delivered. */
  #ahead({ effect: { id, effect, tenant, aggregate, ordered } }: EffectRow): EffectRow | null {
    if (!ordered) return null;
    for (const row of this.rows.values()) {
      const { effect: other } = row;
      if (other.id === id) return null;
      const same = other.effect === effect && other.tenant === tenant && other.aggregate === aggregate;
      if (same && other.state !== "delivered") return row;
    }
    return null;
  }

  /** Whether a record has effects, and all of them are dead. */
  allDead(recordId: string): boolean {
    const own = [...this.rows.values()].filter(({ effect }) => effect.recordId === recordId);
    return own.length > 0 && own.every(({ effect }) => effect.state === "dead");
  }

  /** The committed row of one run of a handler. */
  committed(nonce: number): WorldRow | null {
    return this.#committed.get(nonce) ?? null;
  }

  /** At the end of each step: what was committed in it belongs together. */
  checkStep(): void {
    if (this.#fresh.length === 0 && this.#freshEffects.length === 0) return;
    const enqueued = new Set<string>();
    for (const row of this.#fresh.splice(0)) {
      for (const id of row.enqueued) enqueued.add(id);
      this.#checkRow(row);
    }
    for (const { effect } of this.#freshEffects.splice(0)) {
      this.#report.reach("an effect was enqueued");
      if (!enqueued.delete(effect.id)) {
        this.#report.fail("I9", `effect ${effect.id} is there without the transaction that enqueued it`);
      }
    }
    for (const id of enqueued) {
      this.#report.fail("I9", `effect ${id} is not there, and its transaction has committed`);
    }
  }

  #checkEdge({ effect: before }: EffectRow, { effect }: EffectRow): void {
    const edge = `${before.state}>${effect.state}`;
    if (!edges.has(edge)) this.#report.fail("I5", `effect ${effect.id}: no such edge: ${edge}`);
    if (before.state === "pending" && effect.fence.attempt !== before.fence.attempt + 1) {
      this.#report.fail("I13", `effect ${effect.id}: a claim under attempt ${effect.fence.attempt}`);
    }
    if (before.state === "pending" && effect.fence.token === before.fence.token) {
      this.#report.fail("I13", `effect ${effect.id}: a claim under the token of the one before`);
    }
    if (before.state === "pending" && effect.state !== "dead") {
      const ahead = this.#ahead(this.rows.get(effect.id) as EffectRow);
      if (ahead !== null) this.#report.fail("I9", `effect ${effect.id} is claimed before ${ahead.effect.id}`);
      if (effect.ordered) this.#report.reach("an ordered effect was claimed");
    }
    if (effect.state === "started" && before.state !== "started" && effect.sends > 1) {
      this.#report.reach("redelivery happened");
    }
    if (effect.state === "dead") this.#report.reach("a dead letter");
    if (effect.state === "delivered") {
      this.#report.reach("a delivery");
      if (this.#downstream.find(effect.downstreamKey) === null) {
        this.#report.fail("I9", `effect ${effect.id} is delivered, and the other side knows nothing of it`);
      }
    }
  }

  /** The record of the row, or its step, is committed with it. */
  #checkRow(row: WorldRow): void {
    this.#committed.set(row.nonce, row);
    const place = `${row.life} ${row.step}`;
    const count = (this.#perStep.get(place) ?? 0) + 1;
    this.#perStep.set(place, count);
    if (row.step.startsWith("delivered")) {
      if (count > 1) this.#report.fail("I1", `${place}: onDelivered committed ${count} times`);
      return;
    }
    if (count > 1) this.#report.fail("I1", `${place}: committed ${count} times`);
    const life = this.#lives.all.get(row.life);
    if (life === undefined) {
      this.#report.fail("I1", `${place}: committed without its record`);
      return;
    }
    life.nonces.add(row.nonce);
    if (row.digest !== null && row.digest !== life.record.fingerprint.digest[0]) {
      this.#report.fail("I2", `${place}: committed for another body than its record's`);
    }
    if (row.step === "") {
      const answer = life.answer;
      if (answer === null || nonceOf(answer) !== row.nonce) {
        this.#report.fail("I1", `${place}: row ${row.nonce} committed with ${answer ?? "no answer"}`);
      }
    } else if (!life.steps.some(({ name }) => name === row.step)) {
      this.#report.fail("I10", `${place}: committed without its step`);
    }
  }
}
