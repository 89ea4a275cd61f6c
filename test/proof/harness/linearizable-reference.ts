/** The slow judge of `checkKey`'s test: every order of every step, with the one that runs as a part of the state. */
import { isLost, type Operation } from "./linearizable-model.ts";

type State =
  | { readonly kind: "free" }
  /** `back`: what is left when it comes to nothing. */
  | { readonly kind: "running"; readonly by: number; readonly back: "free" | "retryable" }
  | { readonly kind: "retryable"; readonly fingerprint: string }
  | { readonly kind: "unknown"; readonly fingerprint: string; readonly owner: number }
  | { readonly kind: "completed"; readonly fingerprint: string; readonly answer: string };

interface Place {
  readonly state: State;
  /** Operations that have got their answer, or, of the lost ones, come to their end. */
  readonly over: ReadonlySet<number>;
}

/** Whether some order explains a history of requests alone; a handful, for it takes exponential time. */
export function explainable(history: readonly Operation[]): boolean {
  const moments = history
    .flatMap(({ invokedAt, returnedAt }, index) => [
      { at: invokedAt, index, returns: false },
      ...(returnedAt === null || isLost(history[index] as Operation)
        ? []
        : [{ at: returnedAt, index, returns: true }]),
    ])
    .sort((left, right) => left.at - right.at);
  const open = new Set<number>();
  let places: Place[] = [{ state: { kind: "free" }, over: new Set() }];
  for (const { index, returns } of moments) {
    if (!returns) open.add(index);
    places = reachable(places, history, open);
    if (!returns) continue;
    places = places.filter(({ over }) => over.has(index));
    open.delete(index);
  }
  return places.length > 0;
}

function reachable(
  from: readonly Place[],
  history: readonly Operation[],
  open: ReadonlySet<number>,
): Place[] {
  const seen = new Map<string, Place>();
  const waiting = [...from];
  for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) {
    const name = JSON.stringify([place.state, [...place.over].sort()]);
    if (seen.has(name)) continue;
    seen.set(name, place);
    for (const index of open) if (!place.over.has(index)) waiting.push(...steps(place, history, index));
  }
  return [...seen.values()];
}

function steps(place: Place, history: readonly Operation[], index: number): readonly Place[] {
  const operation = history[index] as Operation;
  const { asked, answered } = operation;
  if (asked.kind !== "submit") throw new TypeError("requests alone");
  const { fingerprint } = asked;
  const { state } = place;
  const over = new Set(place.over).add(index);
  const next: Place[] = [];
  const go = (to: State, ends = false) => next.push({ state: to, over: ends ? over : place.over });
  const holder = holderOf(state, history);

  // It begins, or takes over from one that came to nothing; and comes to nothing itself.
  const isFree = state.kind === "free" || state.kind === "running" || state.kind === "retryable";
  const back = state.kind === "retryable" || (state.kind === "running" && state.back === "retryable");
  const fits = !back || holder === fingerprint;
  if (isFree && fits && !(state.kind === "running" && state.by === index)) {
    go({ kind: "running", by: index, back: back ? "retryable" : "free" });
  }
  const owns = state.kind === "running" && state.by === index;
  if (owns) go(back ? { kind: "retryable", fingerprint } : { kind: "free" });
  if (owns && back) go({ kind: "free" });

  if (isLost(operation)) {
    for (const answer of ["A", "B", "other"]) {
      const done: State = { kind: "completed", fingerprint, answer };
      if (owns) go(done, true);
      if (state.kind === "unknown" && state.owner === index) go(done, true);
    }
    if (owns) go({ kind: "unknown", fingerprint, owner: index });
    return next;
  }
  switch (answered?.kind) {
    case "executed": {
      const done: State = { kind: "completed", fingerprint, answer: answered.answer };
      if (owns || (state.kind === "unknown" && state.owner === index)) go(done, true);
      if (owns) go({ kind: "unknown", fingerprint, owner: index });
      break;
    }
    case "unknown":
      if (owns) go({ kind: "unknown", fingerprint, owner: index });
      if (state.kind === "unknown" && holder === fingerprint) go(state, true);
      break;
    case "retryable":
      go(owns ? { kind: "retryable", fingerprint } : state, true);
      if (owns) go({ kind: "free" }, true);
      break;
    case "replay":
      if (state.kind === "completed" && holder === fingerprint && state.answer === answered.answer)
        go(state, true);
      break;
    case "in_progress":
      if (state.kind === "running" && !owns && holder === fingerprint) go(state, true);
      break;
    case "misuse":
      if (holder !== null && holder !== fingerprint) go(state, true);
      break;
    default:
      throw new TypeError("not for this judge");
  }
  return next;
}

function holderOf(state: State, history: readonly Operation[]): string | null {
  if (state.kind === "free") return null;
  if (state.kind !== "running") return state.fingerprint;
  const asked = history[state.by]?.asked;
  return asked?.kind === "submit" ? asked.fingerprint : null;
}
