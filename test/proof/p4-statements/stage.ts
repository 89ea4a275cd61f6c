/**
 * Where sessions meet: every part of a flight waits here until it is chosen. Between two choices everything runs until it
 * waits again: for a choice, or for a lock, which `pg_blocking_pids` tells.
 */
import type { Client } from "pg";
import type { Gate, Wire } from "./gated-socket.ts";
import type { Planted } from "./parts.ts";
import type { Tally } from "./tally.ts";

/** A statement that has not answered by then may be waiting for a lock: it is looked at. */
const patienceMs = 2;
/** The server looks for deadlocks 20 ms after a lock was not to be had. */
const deadlockMs = 1_000;
/** Longer than any time-out that the server was given. */
const silenceMs = 15_000;

/**
 * What never waits for a row of somebody else's: look-ups, and everything that takes what is free and leaves the rest.
 */
const neverWaiting: ReadonlySet<string> = new Set([
  "open",
  "look",
  "open_batch",
  "look_batch",
  "read",
  "read_many",
  "journal",
  "open_phase",
  "take_over_ended",
  "take_over_retryable",
  "give_up",
  "claim_pending",
  "claim_unknowns",
  "claim_effects",
  "rescue_effects",
  "ended_leases",
  "resumable",
  "abandon",
  "forget",
  "purge",
  "reap_leases",
  "clean_effects",
]);

export class Stage implements Gate {
  closed = false;
  /** What must not be, and was seen on the way. */
  readonly offences: string[] = [];
  readonly rewrite: Planted | undefined;
  readonly tally: Tally;
  readonly #wires = new Set<Wire>();
  /** Backends whose clients have gone: they may take a moment to see it. */
  readonly #leaving = new Set<number>();
  readonly #observer: Client;
  #events = 0;
  #wake: () => void = () => {};

  constructor(observer: Client, tally: Tally, rewrite: Planted | undefined) {
    this.#observer = observer;
    this.tally = tally;
    this.rewrite = rewrite;
  }

  /** All connections that are not closed, in the order in which they were opened. */
  get wires(): readonly Wire[] {
    return [...this.#wires];
  }

  opened(wire: Wire): void {
    this.#wires.add(wire);
    this.noted();
  }

  noted(): void {
    this.#events += 1;
    this.#wake();
  }

  arrived(_wire: Wire): void {
    this.noted();
  }

  refused(_wire: Wire, sqlState: string): void {
    this.tally.count(`SQLSTATE ${sqlState}`);
  }

  left(wire: Wire): void {
    this.#wires.delete(wire);
    if (wire.pid !== 0) this.#leaving.add(wire.pid);
  }

  /** Resolves when nothing moves any more that is not held here or behind a lock. */
  async quiet(): Promise<void> {
    for (;;) {
      await turns();
      const before = this.#events;
      if (this.#leaving.size > 0) {
        await this.#seeOff();
        continue;
      }
      const busy = this.wires.filter((wire) => wire.busy);
      if (busy.length === 0) {
        await turns();
        if (before === this.#events) return;
        continue;
      }
      const inServer = busy.filter((wire) => !wire.dying && wire.flight !== null);
      if (inServer.length < busy.length) {
        await this.#next(silenceMs, before);
        continue;
      }
      // Those that were waiting for a lock at the last look are looked at again at once.
      const fresh = inServer.some((wire) => !wire.blocked);
      if (fresh && (await this.#next(patienceMs, before))) continue;
      if (await this.#allBlocked(inServer, before)) return;
    }
  }

  async #seeOff(): Promise<void> {
    // One that waits for a lock sees it only afterwards.
    const { rows } = await this.#observer.query<{ pid: number }>({
      name: "leaving",
      text: `select pid from pg_catalog.pg_stat_activity
        where pid = any ($1::int[]) and pg_catalog.cardinality(pg_catalog.pg_blocking_pids(pid)) = 0`,
      values: [[...this.#leaving]],
    });
    const left = rows.map(({ pid }) => pid);
    for (const pid of this.#leaving) if (!left.includes(pid)) this.#leaving.delete(pid);
    if (left.length > 0) await this.#next(patienceMs, this.#events);
  }

  /** Waits until something happens. */
  async #next(limitMs: number, since: number): Promise<boolean> {
    if (this.#events !== since) return true;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limitMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = () => {};
    return this.#events !== since;
  }

  async #allBlocked(inServer: readonly Wire[], since: number): Promise<boolean> {
    const blockers = await this.#blockers(inServer.map(({ pid }) => pid));
    await turns();
    if (this.#events !== since) return false;
    for (const wire of inServer) {
      const waits = (blockers.get(wire.pid)?.length ?? 0) > 0;
      if (waits && !wire.blocked) this.#noteWait(wire);
      wire.blocked = waits;
    }
    if (inServer.some(({ blocked }) => !blocked)) {
      await this.#next(patienceMs, since);
      return false;
    }
    if (!hasCycle(blockers)) return true;
    // The server ends one of them by itself, and soon.
    return !(await this.#next(deadlockMs, since));
  }

  #noteWait({ flight }: Wire): void {
    const label = flight?.parts[flight.next - 1]?.label ?? "";
    this.tally.count("step blocked");
    this.tally.count(`blocked in ${label}`);
    if (neverWaiting.has(label)) this.offences.push(`I11: ${label} waits for a lock of somebody else's`);
  }

  async #blockers(pids: readonly number[]): Promise<ReadonlyMap<number, readonly number[]>> {
    const { rows } = await this.#observer.query<{ pid: number; by: number[] }>({
      name: "blockers",
      text: "select p as pid, pg_catalog.pg_blocking_pids(p) as by from pg_catalog.unnest($1::int[]) p",
      values: [pids],
    });
    return new Map(rows.map(({ pid, by }) => [pid, by]));
  }

  /** Nothing can be chosen, and something waits in the server: a time-out, or whoever holds the lock, ends that. */
  async waitForServer(): Promise<boolean> {
    return this.#next(silenceMs, this.#events);
  }

  async endBackend(wire: Wire): Promise<void> {
    wire.dying = true;
    await this.#observer.query("select pg_catalog.pg_terminate_backend($1)", [wire.pid]);
  }
}

function hasCycle(blockers: ReadonlyMap<number, readonly number[]>): boolean {
  const reaches = (from: number, wanted: number, seen: Set<number>): boolean =>
    (blockers.get(from) ?? []).some((next) => {
      if (next === wanted) return true;
      if (seen.has(next)) return false;
      seen.add(next);
      return reaches(next, wanted, seen);
    });
  return [...blockers.keys()].some((pid) => reaches(pid, pid, new Set()));
}

/** Lets everything run that waits for no input: replies come, and are answered, in turns of the loop. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}
