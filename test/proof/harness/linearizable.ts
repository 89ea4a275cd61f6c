/**
 * Whether what the clients of one idempotency key were answered can have come from a key that is one thing (I14):
 * just-in-time linearization (Lowe 2017, after Wing and Gong 1993), with each configuration kept once.
 *
 *     const verdict = checkKey(history);
 *     if (!verdict.ok) throw new ProofFailure(`I14: ${verdict.why}`, seed, again, { after });
 *
 * The key, as its clients see it:
 * - `free`, or held by one life, of one fingerprint: `retryable`, `accepted`, `unknown`, `completed`, `expired`.
 * - Of `free` and `retryable` a request may be running; it may come to nothing at any time (a transaction rolls back, a
 *   lease ends), so who runs is not part of the state. But `in_progress` needs a request that can be the one that runs.
 * - A request that was never answered, or with a doubt, has happened once or not at all, at any time since.
 * - `completed` absorbs. Every replay gives the one answer; only `expire` and `forget` end it.
 */
import {
  type Configuration,
  type Event,
  eventsOf,
  isLost,
  type KeyState,
  knownOf,
  type Open,
  type Operation,
} from "./linearizable-model.ts";
import { isExplained, largestOf, spread } from "./linearizable-search.ts";

export type { Answered, Asked, Operation } from "./linearizable-model.ts";

export interface CheckOptions {
  /**
   * `workers`: reconcilers and workers that are not in the history may settle what is unknown and go on with what is
   * retryable. Default `nobody`.
   */
  readonly unseen?: "nobody" | "workers";
}

export type Verdict =
  /** `configurations`: the most that had to be kept at once. */
  | { readonly ok: true; readonly configurations: number }
  | {
      readonly ok: false;
      /** The first operation whose answer nothing explains, in the order of the answers. */
      readonly at: Operation;
      /** A few lines: the operation, what the key can have been, and what was open at the same time. */
      readonly why: string;
    };

/**
 * @throws {RangeError} when the history is none: a number twice, a return before its call, an answer without a return, a
 * process that asks again before it was answered.
 */
export function checkKey(history: readonly Operation[], options: CheckOptions = {}): Verdict {
  const events = eventsOf(history);
  const known = knownOf(events, options.unseen === "workers");
  const open: Open[] = [];
  let configurations: readonly Configuration[] = [
    { state: { kind: "free" }, read: 0n, written: 0n, left: new Map() },
  ];
  let most = 1;
  for (const event of events) {
    if (event.returns) {
      const explained = configurations.filter((one) => isExplained(one, event.open));
      if (explained.length === 0) return unexplained(event, configurations, open);
      open.splice(open.indexOf(event.open), 1);
      configurations = largestOf(explained.map((one) => withoutBit(one, event.open.bit)));
    } else {
      configurations = spread(begun(configurations, event.open, open), { open, known, at: event.at });
    }
    most = Math.max(most, configurations.length);
  }
  return { ok: true, configurations: most };
}

/** Requests that are never answered are alike, so that they are counted and not distinguished. */
function begun(before: readonly Configuration[], one: Open, open: Open[]): readonly Configuration[] {
  const { fingerprint } = one;
  if (fingerprint === null || !isLost(one.operation)) {
    open.push(one);
    return before;
  }
  return before.map((configuration) => {
    const left = new Map(configuration.left);
    return { ...configuration, left: left.set(fingerprint, (left.get(fingerprint) ?? 0) + 1) };
  });
}

function withoutBit(one: Configuration, bit: bigint): Configuration {
  return { ...one, read: one.read & ~bit, written: one.written & ~bit };
}

function unexplained(event: Event, before: readonly Configuration[], open: readonly Open[]): Verdict {
  const at = event.open.operation;
  const states = [...new Set(before.map(({ state }) => stateText(state)))];
  const others = open.filter((one) => one !== event.open).map(({ operation }) => `  ${textOf(operation)}`);
  const lost = [...(before[0]?.left ?? [])].map(
    ([name, count]) => `  ${count} x (${name}) without an answer`,
  );
  const lines = [
    `no order of the operations explains ${textOf(at)}`,
    `by then the key was: ${states.join(" | ")}`,
    ...(others.length + lost.length === 0 ? ["nothing else was open"] : ["open at its return:"]),
    ...others,
    ...lost,
  ];
  return { ok: false, at, why: lines.join("\n") };
}

function stateText(state: KeyState): string {
  const { kind } = state;
  if (kind === "free") return kind;
  const answer = kind === "completed" ? ` with ${state.answer ?? "an answer nobody has seen"}` : "";
  return `${kind} (${state.fingerprint})${answer}`;
}

function textOf({ process, asked, answered, invokedAt, returnedAt }: Operation): string {
  const what = asked.kind === "submit" ? `submit(${asked.fingerprint})` : JSON.stringify(asked);
  const answer = answered === null ? "nothing" : Object.values(answered).join(" ");
  return `${process}: ${what} -> ${answer} [${invokedAt}, ${returnedAt ?? "never"}]`;
}
