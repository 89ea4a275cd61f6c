/**
 * The port calls of one process, counted one by one, and the one at which it dies. Its end is SIGKILL, sent to itself at that
 * very moment: nothing of it runs any more.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { writeSync } from "node:fs";
import type { Socket } from "node:net";
import type { StorePort } from "../../../packages/latchkey/src/testing/index.ts";

/** What crosses the network: the store's calls, a handler's own statements, and what is asked of the other side. */
export type Port = StorePort | "statement" | "send" | "lookup" | "close";

/**
 * - `before`: the call is not made.
 * - `flight`: its bytes have left, the other end has them, and nobody has read a reply.
 * - `late`: its bytes have left and arrive only when others have gone on.
 * - `after`: the reply has come.
 */
export type Moment = "before" | "flight" | "late" | "after";

/** Renewals come as they like, so they are counted by themselves. */
export type Series = "calls" | "beats";

export interface KillPoint {
  readonly series: Series;
  /** Counts the calls of this port alone; null: all of the series. */
  readonly of: Port | null;
  /** From 1. */
  readonly number: number;
  readonly moment: Moment;
  /** `flight` and `late`: which write to a connection, for a call may make several. From 1. */
  readonly write: number;
}

/** A call that was made, and how often it wrote to a connection. */
export interface Call {
  readonly series: Series;
  readonly number: number;
  readonly port: Port;
  /** Among those of its port, from 1. */
  readonly nth: number;
  writes: number;
  /** What it sends is to arrive late. */
  late: boolean;
}

/** Which call the code that runs now belongs to; an open transaction changes it. */
interface Span {
  call: Call | null;
}

const spans = new AsyncLocalStorage<Span>();
/** True for what belongs to the job, whatever it has started. */
const counted = new AsyncLocalStorage<boolean>();

/** The call that runs now; null: none does. */
export function runningCall(): Call | null {
  return spans.getStore()?.call ?? null;
}

export class Course {
  readonly calls: Call[] = [];
  readonly beats: Call[] = [];
  readonly #doom: KillPoint | null;
  readonly #hold: (call: Call) => Promise<void>;

  /** @param hold sees to it that what the process writes from now on arrives late */
  constructor(killPoint: KillPoint | null, hold: (call: Call) => Promise<void>) {
    this.#doom = killPoint;
    this.#hold = hold;
  }

  /** Calls of this job count, and no others. */
  run<T>(job: () => Promise<T>): Promise<T> {
    return counted.run(true, job);
  }

  begin(port: Port): Call {
    const series = port === "renew" ? "beats" : "calls";
    const made = counted.getStore() === true ? this[series] : [];
    const nth = made.filter((earlier) => earlier.port === port).length + 1;
    const call: Call = { series, number: made.length + 1, port, nth, writes: 0, late: false };
    made.push(call);
    return call;
  }

  before(call: Call): void {
    if (!this.#isDoomed(call)) return;
    if (this.#doom?.moment === "before") die(call, "before");
    call.late = this.#doom?.moment === "late";
  }

  after(call: Call): void {
    if (this.#isDoomed(call) && this.#doom?.moment === "after") die(call, "after");
  }

  async pass<T>(port: Port, act: () => Promise<T>): Promise<T> {
    const call = this.begin(port);
    this.before(call);
    const reply = await spans.run({ call }, act);
    this.after(call);
    return reply;
  }

  /**
   * A call that opens something and ends it later. `act` is given what brackets the work inside, and what begins the end.
   */
  async bracket<T>(
    opening: Port,
    act: (inside: <R>(work: () => Promise<R>) => Promise<R>, end: (port: Port) => void) => Promise<T>,
  ): Promise<T> {
    const opens = this.begin(opening);
    this.before(opens);
    const span: Span = { call: opens };
    let ends: Call | null = null;
    const inside = <R>(work: () => Promise<R>): Promise<R> => {
      this.after(opens);
      return spans.run({ call: null }, work);
    };
    const end = (port: Port) => {
      ends = this.begin(port);
      this.before(ends);
      span.call = ends;
    };
    try {
      return await spans.run(span, () => act(inside, end));
    } finally {
      if (ends !== null) this.after(ends);
    }
  }

  passNow(port: Port, act: () => void): void {
    const call = this.begin(port);
    this.before(call);
    spans.run({ call }, act);
    this.after(call);
  }

  /** Watches a connection: what is written to it has left this process when the system has it. */
  watch(socket: Socket): void {
    const write = socket._write.bind(socket);
    const writev = socket._writev?.bind(socket);
    socket._write = (...given) => this.#writes(() => write(...given));
    if (writev !== undefined) socket._writev = (...given) => this.#writes(() => writev(...given));
  }

  #writes(write: () => void): void {
    const call = runningCall();
    if (call !== null) call.writes += 1;
    const { moment, write: which } = this.#doom ?? {};
    const isLast = call !== null && this.#isDoomed(call) && call.writes === which;
    if (isLast && moment === "late") {
      void this.#hold(call).then(() => {
        write();
        die(call, moment);
      });
      return;
    }
    write();
    if (isLast && moment === "flight") die(call, moment);
  }

  #isDoomed(call: Call): boolean {
    const killPoint = this.#doom;
    if (killPoint === null || killPoint.series !== call.series || !this[call.series].includes(call))
      return false;
    if (killPoint.of === null) return killPoint.number === call.number;
    return killPoint.of === call.port && killPoint.number === call.nth;
  }
}

function die({ port, number, series }: Call, moment: Moment): never {
  writeSync(1, `${JSON.stringify({ dies: moment, port, number, series })}\n`);
  process.kill(process.pid, "SIGKILL");
  for (;;);
}
