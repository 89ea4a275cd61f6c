/**
 * Lets services look for work until none is left. They feed each other: deferred work enqueues effects, and settled outcomes
 * are resumed. So the drain ends only when each service has found nothing since the last change made by any.
 */

import type { Runtime } from "../execution/runtime.ts";
import { pause } from "../ports.ts";
import { withLimit } from "../time/time-limit.ts";
import type { Look, LookingService } from "./service.ts";

export type DrainEnd = "nothing_due" | "time_over" | "aborted";

export interface ServiceFailure {
  readonly service: string;
  readonly error: unknown;
}

type Counts = Record<string, number>;

interface Member {
  readonly service: LookingService<unknown>;
  readonly total: Counts;
  /** The number of changes when it last found nothing. */
  idleAtChange: number;
  /** Some of its work is due but has to wait, as for a rate. */
  waits: boolean;
  /** Ends its pause. */
  idle: AbortController;
}

/** How long to wait for a look that hangs. */
const lookLimitMs = 60_000;

export class Drain<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #members: readonly Member[];
  readonly #over = new AbortController();
  readonly #failures = new Map<string, ServiceFailure>();
  #ended: DrainEnd = "nothing_due";
  #changes = 0;
  readonly #underWay = new Set<Promise<void>>();
  readonly #ending = Promise.withResolvers<void>();
  #serving: Promise<unknown> = Promise.resolve();
  #stops: readonly Promise<void>[] = [];

  constructor(runtime: Runtime<Tx>, services: readonly LookingService<unknown>[]) {
    this.#runtime = runtime;
    this.#members = services.map((service) => ({
      service,
      total: { ...(service.nothing as Counts) },
      idleAtChange: -1,
      waits: false,
      idle: new AbortController(),
    }));
  }

  get failures(): readonly ServiceFailure[] {
    return [...this.#failures.values()];
  }

  /** Resolves when nothing is due, or at `end`; work that was begun may then still be running. Never rejects. */
  async run(): Promise<DrainEnd> {
    for (const member of this.#members) member.service.onCapacity(() => member.idle.abort("woken"));
    if (this.#members.length === 0) this.end("nothing_due");
    this.#serving = Promise.all(this.#members.map((member) => this.#serve(member)));
    await this.#ending.promise;
    return this.#ended;
  }

  /** Begins nothing more. The first call decides the reason. */
  end(because: DrainEnd): void {
    if (this.#over.signal.aborted) return;
    this.#ended = because;
    this.#over.abort(because);
    this.#stops = this.#members.map(({ service }) => service.stop());
    for (const { idle } of this.#members) idle.abort(because);
    this.#ending.resolve();
  }

  /** Resolves when all work that was begun has ended, and all looks too, because they may hold claims. */
  async whenIdle(): Promise<void> {
    await this.#serving;
    await Promise.all([...this.#stops, ...this.#underWay]);
  }

  /** Makes a service look again soon. */
  wake(service: LookingService<unknown> | null): void {
    for (const member of this.#members) if (member.service === service) member.idle.abort("woken");
  }

  totalOf<R>(service: LookingService<R>): R {
    const member = this.#members.find((one) => one.service === service);
    return (member?.total ?? service.nothing) as R;
  }

  async #serve(member: Member): Promise<void> {
    const { service } = member;
    const { clock } = this.#runtime.ports;
    while (!this.#over.signal.aborted) {
      const changes = this.#changes;
      member.idle = new AbortController();
      const looked = await this.#look(service);
      if (looked === null) {
        member.idleAtChange = Number.POSITIVE_INFINITY;
        member.waits = false;
        return this.#endOrWake();
      }
      add(member.total, looked.done as Partial<Counts>);
      for (const run of looked.begun) this.#follow(member, run as Promise<Partial<Counts>>);
      if (looked.mayHaveMore) {
        this.#changes += 1;
        continue;
      }
      if (looked.begun.length > 0) this.#changes += 1;
      member.idleAtChange = changes;
      member.waits = looked.waitMs !== null;
      this.#endOrWake();
      await pause(clock, looked.waitMs ?? service.intervalMs, member.idle.signal, "background");
    }
  }

  /** Null: the look failed. The service then looks no more, so that a store that is down is not called in a loop. */
  async #look(service: LookingService<unknown>): Promise<Look<unknown> | null> {
    const { clock } = this.#runtime.ports;
    const looked = await withLimit(clock, lookLimitMs, () => service.look(this.#over.signal));
    if (looked.kind === "returned") return looked.value;
    const late = () => new Error(`A look took longer than ${lookLimitMs} ms`);
    this.#fail(service, looked.kind === "threw" ? looked.error : late());
    return null;
  }

  #fail({ name }: LookingService<unknown>, error: unknown): void {
    this.#failures.set(name, { service: name, error });
    this.#runtime.emit({ type: "service_error", service: name, error });
  }

  #follow({ service, total }: Member, run: Promise<Partial<Counts>>): void {
    const followed = run
      .then(
        (counts) => add(total, counts),
        (error: unknown) => this.#fail(service, error),
      )
      .then(() => {
        this.#underWay.delete(followed);
        this.#changes += 1;
        this.#endOrWake();
      });
    this.#underWay.add(followed);
  }

  /** Once nothing is running, wakes the services that have not looked since the last change. */
  #endOrWake(): void {
    if (this.#underWay.size > 0 || this.#over.signal.aborted) return;
    const stale = this.#members.filter(({ idleAtChange }) => idleAtChange < this.#changes);
    for (const { idle } of stale) idle.abort("woken");
    if (stale.length === 0 && this.#members.every(({ waits }) => !waits)) this.end("nothing_due");
  }
}

function add(total: Counts, counts: Partial<Counts>): void {
  for (const [name, count = 0] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count;
}
