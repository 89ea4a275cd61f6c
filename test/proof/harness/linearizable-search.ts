/** All that a key can be while some operations are open. */
import type { Answered, Configuration, KeyState, Known, Open } from "./linearizable-model.ts";

export interface Surroundings {
  readonly open: readonly Open[];
  readonly known: Known;
  /** Number of the present event. */
  readonly at: number;
}

/** Whether the answer of this operation has been true in this configuration. */
export function isExplained({ read, written }: Configuration, { bit }: Open): boolean {
  return ((read | written) & bit) !== 0n;
}

/** The given configurations and all that they can become by what is open now. */
export function spread(before: readonly Configuration[], around: Surroundings): readonly Configuration[] {
  const frontier = new Frontier();
  const waiting = [...before];
  for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
    const seen = withReads(one, around);
    if (frontier.add(seen)) waiting.push(...successors(seen, around));
  }
  return frontier.all();
}

/** Those that no other one makes superfluous. */
export function largestOf(configurations: readonly Configuration[]): readonly Configuration[] {
  const frontier = new Frontier();
  for (const one of configurations) frontier.add(one);
  return frontier.all();
}

/** Of two that differ only in how much is still possible, the one with more is enough. */
class Frontier {
  readonly #groups = new Map<string, Configuration[]>();

  /** False: what was there is enough. */
  add(one: Configuration): boolean {
    const name = groupOf(one);
    const group = this.#groups.get(name) ?? [];
    if (group.some((other) => covers(other, one))) return false;
    this.#groups.set(name, [...group.filter((other) => !covers(one, other)), one]);
    return true;
  }

  all(): readonly Configuration[] {
    return [...this.#groups.values()].flat();
  }
}

function groupOf({ state, written }: Configuration): string {
  const fingerprint = state.kind === "free" ? null : state.fingerprint;
  const answer = state.kind === "completed" ? state.answer : null;
  return JSON.stringify([state.kind, fingerprint, answer, written.toString(36)]);
}

function covers(more: Configuration, less: Configuration): boolean {
  if ((less.read & ~more.read) !== 0n) return false;
  if (more.state.kind === "unknown" && less.state.kind === "unknown") {
    const [mine, theirs] = [more.state.owner, less.state.owner];
    if (mine === "lost" || theirs === "lost" ? mine !== theirs : mine < theirs) return false;
  }
  return [...less.left].every(([fingerprint, count]) => (more.left.get(fingerprint) ?? 0) >= count);
}

/** Reading changes nothing, so that whatever is true now is taken as answered now. */
function withReads(one: Configuration, around: Surroundings): Configuration {
  let { read } = one;
  for (const open of around.open) {
    if ((read & open.bit) === 0n && isTrue(open, one, around)) read |= open.bit;
  }
  return read === one.read ? one : { ...one, read };
}

function isTrue(open: Open, one: Configuration, around: Surroundings): boolean {
  const { answered, fingerprint } = open;
  if (answered === null) return false;
  const { state } = one;
  const kind = state.kind === "free" || state.fingerprint === fingerprint ? state.kind : "misuse";
  switch (answered.kind) {
    case "retryable":
    case "refused":
      return true;
    case "replay":
    case "answered":
      return kind === "completed" && state.kind === "completed" && state.answer === answered.answer;
    case "in_progress":
      return kind === "accepted" || (mayBeRunning(state) && runs(open, one, around, "same"));
    case "misuse":
      return kind === "misuse" || (kind === "free" && runs(open, one, around, "other"));
    case "unknown":
    case "expired":
      return kind === answered.kind;
    case "accepted":
      // Settled so that it may run again, and a worker will.
      return kind === "accepted" || (around.known.workers && kind === "retryable");
    case "executed":
    case "doubt":
    case "done":
      return false;
    default:
      return answered satisfies never;
  }
}

function mayBeRunning({ kind }: KeyState): boolean {
  return kind === "free" || kind === "retryable";
}

/** Whether a request other than this one can be running, of the same fingerprint or of another. */
function runs(
  reader: Open,
  { state, left, written }: Configuration,
  { open, known }: Surroundings,
  which: "same" | "other",
): boolean {
  const isMeant = (fingerprint: string | null) =>
    (fingerprint === reader.fingerprint) === (which === "same") &&
    (state.kind === "free" || state.fingerprint === fingerprint);
  if (known.workers && state.kind === "retryable" && isMeant(state.fingerprint)) return true;
  if ([...left].some(([fingerprint, count]) => count > 0 && isMeant(fingerprint))) return true;
  return open.some(
    (other) => other !== reader && other.mayRun && (written & other.bit) === 0n && isMeant(other.fingerprint),
  );
}

function successors(one: Configuration, around: Surroundings): readonly Configuration[] {
  const { open } = around;
  const byRequests = open.flatMap((each) => afterOpen(one, each, around));
  const byLost = [...one.left].flatMap(([fingerprint, count]) =>
    count > 0 ? afterLost(one, fingerprint) : [],
  );
  return [...byRequests, ...byLost, ...unasked(one, around)];
}

/** What one open operation can make of the key. */
function afterOpen(one: Configuration, open: Open, around: Surroundings): readonly Configuration[] {
  if ((one.written & open.bit) !== 0n) return [];
  if (open.fingerprint === null) {
    const to = afterSetting(one.state, open);
    return to === null ? [] : [{ ...one, state: to, written: one.written | open.bit }];
  }
  const next: Configuration[] = [];
  const finished = finishedBy(one.state, open, open.fingerprint);
  if (finished !== null) next.push({ ...one, state: finished, written: one.written | open.bit });
  for (const state of undoneBy(one.state, open, open.fingerprint, around)) next.push({ ...one, state });
  return next;
}

function afterSetting(state: KeyState, { operation, answered }: Open): KeyState | null {
  const { asked } = operation;
  if (answered !== null && answered.kind !== "done") return null;
  if (asked.kind === "settle" && state.kind === "unknown") {
    const { fingerprint } = state;
    if (asked.to === "retryable") return { kind: "retryable", fingerprint };
    return { kind: "completed", fingerprint, answer: asked.to.answer };
  }
  if (asked.kind === "expire" && state.kind === "completed") {
    return { kind: "expired", fingerprint: state.fingerprint };
  }
  const isOver = state.kind === "completed" || state.kind === "expired";
  return asked.kind === "forget" && isOver ? { kind: "free" } : null;
}

/** The end of a request that it was answered with. */
function finishedBy(state: KeyState, { answered, at }: Open, fingerprint: string): KeyState | null {
  if (answered?.kind === "accepted") return state.kind === "free" ? { kind: "accepted", fingerprint } : null;
  if (answered?.kind !== "executed" && answered?.kind !== "answered") return null;
  if (state.kind !== "free" && state.fingerprint !== fingerprint) return null;
  const isOwner = state.kind === "unknown" && state.owner !== "lost" && at <= state.owner;
  if (state.kind !== "free" && state.kind !== "retryable" && !isOwner) return null;
  return { kind: "completed", fingerprint, answer: answered.answer };
}

/** What is left of an attempt of this request that has ended before its answer. */
function undoneBy(
  state: KeyState,
  { answered, mayRun }: Open,
  fingerprint: string,
  { known, at }: Surroundings,
): readonly KeyState[] {
  if (!mayRun || !isFreeFor(state, fingerprint)) return [];
  const next: KeyState[] = [];
  if (answered?.kind === "retryable" || known.workers) next.push({ kind: "retryable", fingerprint });
  if (state.kind === "retryable") next.push({ kind: "free" });
  if (known.settles || leavesUnknown(answered)) {
    next.push({ kind: "unknown", fingerprint, owner: at });
  }
  return next;
}

/** Where nobody settles, an unknown stays one: only its owner gets any other reply. */
function leavesUnknown(answered: Answered | null): boolean {
  return answered?.kind === "unknown" || answered?.kind === "executed" || answered?.kind === "answered";
}

function isFreeFor(state: KeyState, fingerprint: string): boolean {
  return state.kind === "free" || (state.kind === "retryable" && state.fingerprint === fingerprint);
}

/** What a request that is never answered can make of the key: it completes, or ends in doubt. Each ends once. */
function afterLost(one: Configuration, fingerprint: string): readonly Configuration[] {
  if (!isFreeFor(one.state, fingerprint)) return [];
  const left = new Map(one.left);
  left.set(fingerprint, (left.get(fingerprint) ?? 0) - 1);
  const freed: readonly Configuration[] =
    one.state.kind === "retryable" ? [{ ...one, state: { kind: "free" } }] : [];
  return [
    { ...one, left, state: { kind: "completed", fingerprint, answer: null } },
    { ...one, left, state: { kind: "unknown", fingerprint, owner: "lost" } },
    ...freed,
  ];
}

/** What happens without anybody in the history: workers, lost owners, and the first look at an answer. */
function unasked(one: Configuration, { open, known }: Surroundings): readonly Configuration[] {
  const { state } = one;
  if (state.kind === "free" || state.kind === "expired") return [];
  const { fingerprint } = state;
  const completed: Configuration = { ...one, state: { kind: "completed", fingerprint, answer: null } };
  const lost: Configuration = {
    ...one,
    state: { kind: "unknown", fingerprint, owner: "lost" },
  };
  switch (state.kind) {
    case "accepted":
      return [completed, lost];
    case "retryable":
      return known.workers ? [completed, lost] : [];
    case "unknown":
      if (known.workers) return [completed, { ...one, state: { kind: "retryable", fingerprint } }];
      return state.owner === "lost" ? [completed] : [];
    case "completed": {
      if (state.answer !== null) return [];
      const answers = open.flatMap(({ answered }) =>
        answered !== null && "answer" in answered ? [answered.answer] : [],
      );
      return [...new Set(answers)].map((answer) => ({ ...one, state: { ...state, answer } }));
    }
    default:
      return state satisfies never;
  }
}
