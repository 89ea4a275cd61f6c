/**
 * The process's clock, timers and randomness. Everything in Latchkey that waits, measures or draws goes through
 * these two ports, so that a proof can drive every schedule. This is the only file that touches the real ones.
 */
import { AsyncResource } from "node:async_hooks";
import { randomFillSync } from "node:crypto";

/** Stops a timer. Calling it twice, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

/**
 * `awaited`, the default: a caller's promise depends on the timer, so it keeps the process alive; Node would otherwise end
 * in the middle of an `await`, with exit code 0 and without a message. `background`: loops, heartbeats and idle limits.
 */
export type TimerKind = "awaited" | "background";

/**
 * Process time. It is used only to stop early and to wait; times in a record are always compared with database time.
 */
export interface Clock {
  /** Milliseconds from an arbitrary start; never goes back, is not wall-clock time. */
  monotonicMs(): number;
  /**
   * Wall-clock milliseconds since the Unix epoch. For logs, key suggestions and the age of a request by its client's clock;
   * never to decide about a record.
   */
  wallMs(): number;
  /** Runs `task` once after `delayMs` milliseconds. */
  startTimer(delayMs: number, task: () => void, kind?: TimerKind): CancelTimer;
  /** Keeps the process alive, without a timer, until the returned function is called. Calling that twice does nothing. */
  keepAlive(): () => void;
}

export interface Random {
  /** A fresh 128-bit token as 32 lower-case hexadecimal digits: the random half of a fence. */
  token(): string;
  /** A UUID version 7 (RFC 9562) whose time part is `epochMs`; pass database time where there is one. */
  uuid(epochMs: number): string;
  /** A number in [0, 1), for jitter. */
  fraction(): number;
}

/** The longest delay a timer can have; Node fires one that is longer at once. */
export const timerMaxMs = 2_147_483_647;

export interface Ports {
  readonly clock: Clock;
  readonly random: Random;
}

/** How long after the last awaited timer the holder can remain, where `unref` does nothing. */
const holderMs = 10_000;

/** Taken at import: a test's replacement of `setTimeout` must not run the holder. */
const { setTimeout: setRealTimeout } = globalThis;

/** A timer keeps its caller's asynchronous context, here that of the first request, for as long as it is set. */
const startHolder = AsyncResource.bind((task: () => void) => setRealTimeout(task, holderMs));

/**
 * Keeps the process alive while timers are awaited, so that they need not do so themselves. When the last referenced timer of
 * a delay is cleared, Node drops its list for that delay, too, which costs three times as much as the timer. The list of
 * unreferenced timers stays until it expires.
 */
class AwaitedTimers {
  #count = 0;
  /** Created when first needed: workerd allows no timers at module level. */
  #holder: NodeJS.Timeout | null = null;

  /** Returns the function to call when the timer has fired or was stopped. */
  add(): () => void {
    this.#count += 1;
    if (this.#count === 1) this.#hold();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#count -= 1;
      if (this.#count === 0) this.#holder?.unref();
    };
  }

  #hold(): void {
    this.#holder ??= startHolder(() => {
      this.#holder = null;
      if (this.#count > 0) this.#hold();
    });
    this.#holder.ref();
  }
}

const awaitedTimers = new AwaitedTimers();

const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  startTimer(delayMs, task, kind = "awaited") {
    let end = nothing;
    const timer = setTimeout(() => {
      end();
      task();
    }, delayMs);
    // Some runtimes of edge workers return a number, and have no process to keep alive.
    if (typeof timer === "object") {
      if (kind === "background") timer.unref();
      else if (setTimeout === setRealTimeout) {
        end = awaitedTimers.add();
        timer.unref();
      }
      // Otherwise it is a test's, which may drop it without running or clearing it.
    }
    return () => {
      clearTimeout(timer);
      end();
    };
  },
  keepAlive() {
    const timer = setInterval(() => {}, timerMaxMs);
    return () => clearInterval(timer);
  },
};

function nothing(): void {}

/** Random bytes are drawn ahead: a draw costs as much for 16 bytes as for thousands. Each is given out once. */
const drawn = Buffer.alloc(4_096);
let given = drawn.length;

/** The next `count` random bytes, to be read at once: a later draw overwrites them. */
function draw(count: number): Buffer {
  if (given + count > drawn.length) {
    randomFillSync(drawn);
    given = 0;
  }
  given += count;
  return drawn.subarray(given - count, given);
}

const systemRandom: Random = {
  token: () => draw(16).toString("hex"),
  uuid: (epochMs) => uuidVersion7(epochMs, draw(10)),
  fraction: () => draw(4).readUInt32BE() / 0x1_0000_0000,
};

/**
 * Random bytes for a cipher's nonce. Never those of a proof's ports, and not drawn ahead: a process that was copied while
 * it ran would give out the same ones, and a nonce that is used twice gives a cipher's secrets away.
 */
export function nonceBytes(count: number): Uint8Array {
  return randomFillSync(Buffer.alloc(count));
}

/** The real clock and randomness of this process. */
export const systemPorts: Ports = { clock: systemClock, random: systemRandom };

/** Lays out a UUID version 7: 48 bits of `epochMs`, then 74 of the 80 bits in `entropy`. */
export function uuidVersion7(epochMs: number, entropy: Uint8Array): string {
  const bytes = Buffer.allocUnsafe(16);
  bytes.writeUIntBE(Math.floor(epochMs), 0, 6);
  bytes.set(entropy.subarray(0, 10), 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = bytes.toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Node's own, also where a test has replaced it since. Edge workers may lack it, and refuse it as a method. */
const setRealImmediate = typeof setImmediate === "function" ? setImmediate : queueMicrotask;

/**
 * Runs `task` once all that has already arrived at this process has been read. Not a part of `Clock`, because it waits for no
 * time.
 */
export function atEndOfTurn(task: () => void): void {
  setRealImmediate(task);
}

/** Resolves after `delayMs`, or at once when `signal` aborts. Never rejects. */
export function pause(
  clock: Clock,
  delayMs: number,
  signal?: AbortSignal,
  kind: TimerKind = "awaited",
): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.startTimer(delayMs, done, kind);
    signal?.addEventListener("abort", done, { once: true });
  });
}
