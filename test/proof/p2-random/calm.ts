/**
 * The second part of a schedule: no more faults. What was under way ends, what was late arrives, services do what is due,
 * and clients come once more. Then nothing may be left over.
 */
import type { Asked } from "./asked.ts";
import { gotNothing, submit } from "./clients.ts";
import { keyTextOf, type LifeLog, nonceOf } from "./life-log.ts";
import { notLinearizable } from "./linearizable.ts";
import { decideAbout } from "./person.ts";
import type { ServiceName } from "./process.ts";
import { checkStepsAnswer } from "./step-work.ts";
import { wantedServices } from "./wanted.ts";
import type { World } from "./world.ts";

/** A schedule that needs more has something stuck in it. */
const stepsMax = 3_000;
const fadeOutMs = 60_000;

export class Calm {
  readonly #world: World;
  readonly #repeated: Asked[] = [];
  #steps = 0;
  #round: ServiceName[] = [];
  #untilMs: number | null = null;
  #fadedAtMs: number | null = null;
  /** Keys to be asked for once more; null: services have not come to rest for the first time. */
  #toRepeat: LifeLog[] | null = null;

  constructor(world: World) {
    this.#world = world;
    world.calm = true;
    for (const process of world.living()) process.frozen = false;
    world.report.trace.say(() => "no more faults");
  }

  /** One step. False: all is at rest. */
  step(): boolean {
    const world = this.#world;
    this.#steps += 1;
    if (this.#steps > stepsMax) {
      world.report.fail("L1", `not at rest after ${stepsMax} steps: ${this.#whatIsLeft()}`);
      return false;
    }
    if (this.#untilMs !== null) return this.#moveOn(this.#untilMs);
    if (this.#letOne()) return true;
    if (world.tasks.size > 0) return this.#tick();
    return this.#serve() || this.#repeat() || this.#fadeOut();
  }

  /** What nobody waits for, such as a late owner's last tries, ends in this time. */
  #fadeOut(): boolean {
    const { clock } = this.#world;
    const dueMs = clock.nextDueMs();
    this.#fadedAtMs ??= clock.nowMs + fadeOutMs;
    if (dueMs === null || dueMs > this.#fadedAtMs) return false;
    this.#untilMs = dueMs;
    return true;
  }

  #letOne(): boolean {
    const { scheduler, choices } = this.#world;
    if (scheduler.size === 0) return false;
    this.#world.let(choices.pick(scheduler.eligible()), "proceed");
    return true;
  }

  #tick(): boolean {
    const { clock, report } = this.#world;
    const dueMs = clock.nextDueMs();
    if (dueMs === null) {
      report.fail("L1", `nothing will ever end ${this.#whatIsLeft()}`);
      return false;
    }
    this.#untilMs = dueMs;
    return true;
  }

  #moveOn(untilMs: number): boolean {
    const { clock } = this.#world;
    if (!clock.fireOne(untilMs)) {
      clock.moveTo(untilMs);
      this.#untilMs = null;
    }
    return true;
  }

  /** The services that have something to do now, one after the other; or time passes until one has. */
  #serve(): boolean {
    const world = this.#world;
    const dueMs = nextDueMs(world);
    if (dueMs === null) return false;
    if (this.#round.length > 0) {
      const name = this.#round.shift();
      if (name !== undefined) world.startService(world.process(0), name);
      return true;
    }
    // A delivery that is to answer an unknown waits until somebody has decided about it.
    const undecided = lifeWithDelivery(world);
    if (undecided !== null) decideAbout(world, undecided);
    else if (dueMs > world.clock.nowMs) this.#untilMs = dueMs;
    else this.#round = [...wantedServices(world)].filter((name) => name !== "cleaner" || mayAbandon(world));
    return true;
  }

  /** Each key is asked for as it was first, until its answer repeats. */
  #repeat(): boolean {
    const world = this.#world;
    this.#toRepeat ??= [...world.lives.current.values()];
    const life = this.#toRepeat.pop();
    if (life === undefined) return false;
    const { record, plan } = life;
    if (record.state === "in_progress" && world.clock.nowMs < record.leaseEndsAt) {
      this.#untilMs = record.leaseEndsAt;
      this.#toRepeat.push(life);
      return true;
    }
    const request = {
      plan,
      key: { tenant: record.tenant, key: record.key },
      digest: record.fingerprint.digest[0] ?? 0,
      principal: record.principal,
    };
    const asked = submit(world, world.process(this.#toRepeat.length % world.slots), request);
    world.asked.push(asked);
    this.#repeated.push(asked);
    // What went on or began with it is asked for again.
    const goesOn = record.state === "retryable" || record.state === "in_progress";
    if (goesOn && !world.effects.allDead(record.id)) this.#toRepeat.push(life);
    return true;
  }

  /** After the last step. */
  check(): void {
    const world = this.#world;
    const { report, clock } = world;
    for (const asked of this.#repeated) this.#checkRepeated(asked);
    if (clock.size > 0) report.fail("L5", `${clock.size} timers are left over`);
    for (const life of world.lives.all.values()) checkLife(world, life);
    for (const row of world.effects.rows.values()) {
      const { effect } = row;
      const over = effect.state === "delivered" || effect.state === "dead" || world.effects.heldUp(row);
      if (!over) report.fail("L2", `effect ${effect.id} is ${effect.state}`);
    }
    for (const asked of world.asked) checkNothing(world, asked);
    checkHistories(world);
  }

  #checkRepeated({ reply, record }: Asked): void {
    const { report } = this.#world;
    const final = ["replay", "executed", "unknown", "expired", "timeout"];
    // The other side may refuse the call of one that went on, and a step list that has changed waits for a person.
    const kind = reply?.kind ?? "nothing";
    if (kind === "accepted" || kind === "threw") {
      const life = this.#world.lives.of(record);
      // An answer that a dead delivery was to give waits for a person to redrive it.
      if (life?.finished != null || (life !== null && this.#world.effects.allDead(life.id))) return;
    }
    if (!final.includes(kind)) {
      report.fail("L1", `${keyTextOf(record)} gets ${kind} when all is over`);
    }
  }

  #whatIsLeft(): string {
    const { tasks } = this.#world;
    const running = [...tasks].map(({ process, what }) => `${process.name} ${what}`);
    const records = this.#world.records().map((record) => `${keyTextOf(record)} ${record.state}`);
    const effects = [...this.#world.effects.rows.values()].map(({ effect }) => effect.state);
    return [...running, ...records, ...effects].join(", ");
  }
}

/** When a service has something to do; null: it never will. */
function nextDueMs(world: World): number | null {
  const dues: number[] = [];
  for (const { record, resumeAt, plan } of world.lives.current.values()) {
    // Of a handler that may run again nobody can run it but the next request.
    const isOurs = plan.leaseEnd !== "rerun" || record.fence.attempt >= plan.attemptsMax;
    if (record.state === "in_progress" && isOurs) dues.push(record.leaseEndsAt);
    if (record.state === "pending") dues.push(0);
    if (record.state === "unknown" && record.reconcileAfter !== null) dues.push(record.reconcileAfter);
    const isDead = world.effects.allDead(record.id);
    if (record.state === "retryable" && resumeAt !== null && !isDead) dues.push(resumeAt);
  }
  for (const row of world.effects.rows.values()) {
    const { effect, dueAt, leaseEndsAt } = row;
    if (effect.state === "pending" && !world.effects.isBehind(row)) dues.push(dueAt);
    if (effect.state === "claimed" || effect.state === "started") dues.push(leaseEndsAt ?? dueAt);
  }
  return dues.length === 0 ? null : Math.min(...dues);
}

function mayAbandon({ clock, lives }: World): boolean {
  return [...lives.current.values()].some(
    ({ record }) => record.state === "pending" && clock.nowMs >= record.expiresAt,
  );
}

function lifeWithDelivery(world: World): LifeLog | null {
  for (const life of world.lives.current.values()) {
    const { record } = life;
    const waits = record.state === "unknown" && record.reconcileAfter === null;
    if (waits && world.effects.open(life.id)) return life;
  }
  return null;
}

function checkLife(world: World, life: LifeLog): void {
  const { report, effects } = world;
  const { record, plan, answer } = life;
  const isCurrent = life.over === null;
  if (isCurrent && (record.state === "in_progress" || record.state === "pending")) {
    report.fail("L1", `${keyTextOf(record)} ${life.id} is ${record.state} when all is over`);
  }
  if (isCurrent && record.state === "unknown" && record.reconcileAfter !== null) {
    report.fail("L3", `${keyTextOf(record)} ${life.id} is unknown, and nobody decides`);
  }
  if (answer === null) return;
  const status = Number(answer.slice(0, 3));
  if (plan.execution === "transaction") {
    const nonce = nonceOf(answer) ?? -1;
    const committed = effects.committed(nonce) !== null;
    if (committed !== answer.includes("with row")) {
      report.fail("I1", `${life.id} answers ${answer}, and its row is ${committed ? "" : "not "}there`);
    }
  } else if ((plan.shape === "steps" || plan.shape === "deferred") && status === 201) {
    checkStepsAnswer(world, life.id, answer);
  }
}

/** A reply that nothing has happened must be true. */
function checkNothing({ effects, report }: World, asked: Asked): void {
  if (!gotNothing(asked)) return;
  const committed = asked.nonces.filter((nonce) => effects.committed(nonce) !== null);
  if (committed.length === 0) return;
  report.fail("I8", `${asked.plan.name} got ${asked.reply?.kind}, and run ${committed} is committed`);
}

function checkHistories({ asked, lives, report }: World): void {
  for (const history of Map.groupBy(asked, ({ record }) => keyTextOf(record)).values()) {
    const wrong = notLinearizable(history, lives.all);
    if (wrong !== null) report.fail("I14", `no order of ${wrong}`);
  }
}
