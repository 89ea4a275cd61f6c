/** What must hold of an epoch, by what independent observers have seen. Pure. */
import { checkKey } from "../harness/linearizable.ts";
import type { Send } from "./downstream.ts";
import {
  type Body,
  type ClientLog,
  type ClientReply,
  type Entry,
  isAnswer,
  type KeyName,
  lineOf,
  type Route,
  textOfKey,
} from "./history.ts";
import { nameOf } from "./work.ts";

export interface Row {
  readonly route: Route;
  readonly tenant: string;
  readonly key: string;
  readonly body: Body;
  readonly execution: string;
}

export interface Observed {
  readonly log: ClientLog;
  /** The last answer to each key, after everything. */
  readonly last: ReadonlyMap<string, ClientReply>;
  readonly business: readonly Row[];
  readonly settled: readonly Row[];
  readonly noted: readonly string[];
  readonly arrivals: readonly Send[];
  readonly effects: ReadonlyMap<string, number>;
  /** Effects that were given up, by what the other side knows them by. */
  readonly dead: ReadonlySet<string>;
}

export interface Violation {
  readonly invariant: string;
  readonly what: string;
  /** The key's whole history, a line for each request; null: it is about no key of a client's. */
  readonly name: KeyName | null;
}

type Say = (invariant: string, what: string) => void;

interface OfKey {
  readonly name: KeyName;
  readonly entries: readonly Entry[];
  readonly answers: readonly ClientReply[];
  readonly last: ClientReply | null;
  readonly business: readonly Row[];
  readonly settled: readonly Row[];
}

/** Everything that is wrong. */
export function violationsOf(seen: Observed): readonly Violation[] {
  const business = Map.groupBy(seen.business, textOfKey);
  const settled = Map.groupBy(seen.settled, textOfKey);
  const noted = Map.groupBy(seen.noted, (name) => name);
  const arrivals = Map.groupBy(seen.arrivals, ({ name }) => name);
  const found: Violation[] = [];
  for (const name of seen.log.keys()) {
    const say: Say = (invariant, what) => found.push({ invariant, what, name });
    const text = textOfKey(name);
    const entries = seen.log.of(name);
    const key: OfKey = {
      name,
      entries,
      answers: entries.flatMap(({ reply }) => (isAnswer(reply?.answered) && reply !== null ? [reply] : [])),
      last: seen.last.get(text) ?? null,
      business: business.get(text) ?? [],
      settled: settled.get(text) ?? [],
    };
    business.delete(text);
    checkRows(key, say);
    checkAnswers(key, say);
    checkHistory(key, say);
    checkSends(key, seen, arrivals, noted, say);
  }
  for (const text of business.keys())
    found.push({ invariant: "I1", what: `${text}: nobody asked`, name: null });
  return found;
}

function checkRows({ name, business, settled, entries }: OfKey, say: Say): void {
  if (business.length > 1) say("I1", `it happened ${business.length} times: ${executionsOf(business)}`);
  if (settled.length > 1) say("I10", `its last step ran ${settled.length} times: ${executionsOf(settled)}`);
  const inSteps = name.route === "charge" || name.route === "report";
  if (inSteps && settled.length !== business.length) {
    say("I10", `${business.length} first steps and ${settled.length} last ones`);
  }
  const undone = entries.filter(({ reply }) => reply?.answered.kind === "retryable" && reply.status === 500);
  for (const { reply } of undone) {
    if (business.some(({ execution }) => execution === reply?.execution)) {
      say("I8", `${reply?.execution} was reported as undone, and is there`);
    }
  }
}

function checkAnswers({ entries, answers, last, business }: OfKey, say: Say): void {
  for (const { body, reply } of entries) {
    if (reply !== null && isAnswer(reply.answered) && reply.body !== body) {
      say("I2", `body ${body} was answered with what belongs to ${reply.body}`);
    }
  }
  const texts = new Set(answers.map(({ answered }) => (isAnswer(answered) ? answered.answer : "")));
  if (texts.size > 1) say("I3", `${texts.size} different answers:\n${[...texts].join("\n")}`);
  if (last === null || !isAnswer(last.answered)) say("I15", "it is not answered any more");
  const [row] = business;
  for (const { execution, body } of answers) {
    if (row?.execution === execution && row?.body === body) continue;
    const there = row === undefined ? "nothing" : `${row.execution} with ${row.body}`;
    say("I15", `acknowledged: ${execution} with ${body}; there is: ${there}`);
    return;
  }
}

/** Workers go on with steps, and then a request gets the reply that they run; with what a handler did nobody can go on. */
function checkHistory({ name, entries }: OfKey, say: Say): void {
  const inSteps = name.route === "charge" || name.route === "report";
  const inTransaction = name.route === "pay" || name.route === "order";
  const alone = entries.find((entry) => entry.answered?.kind === "in_progress" && !isMet(entry, entries));
  if (alone !== undefined && !inSteps) say("I14", `nobody else was there at ${alone.invokedAt}`);
  const history = inTransaction ? entries.map(withoutRunner) : entries;
  const verdict = checkKey(history, { unseen: inSteps ? "workers" : "nobody" });
  if (!verdict.ok) say("I14", verdict.why);
}

/** Whether another request can have been running while this one was. */
function isMet(one: Entry, entries: readonly Entry[]): boolean {
  const until = (entry: Entry) =>
    entry.answered === null || entry.answered.kind === "doubt" ? null : entry.returnedAt;
  return entries.some((other) => {
    const end = until(other);
    const overlaps =
      other.invokedAt < (one.returnedAt ?? Number.POSITIVE_INFINITY) && (end === null || end > one.invokedAt);
    return other !== one && overlaps;
  });
}

/** Before its COMMIT a transaction's key does not tell what is running, so another body, too, gets the reply that something is. */
function withoutRunner(entry: Entry): Entry {
  return entry.answered?.kind === "in_progress" ? { ...entry, answered: { kind: "retryable" } } : entry;
}

function checkSends(
  { name, business }: OfKey,
  { effects, dead }: Observed,
  arrivals: ReadonlyMap<string, readonly Send[]>,
  noted: ReadonlyMap<string, readonly string[]>,
  say: Say,
): void {
  const happened = business.length > 0;
  for (const what of whatIsSent(name.route)) {
    const sent = nameOf(name, what);
    const came = arrivals.get(sent) ?? [];
    const times = effects.get(sent) ?? 0;
    if (!happened && came.length > 0) say("I9", `${what}: ${came.length} sends of what never committed`);
    if (happened && times === 0 && !dead.has(sent)) say("L2", `${what}: neither delivered nor given up`);
    if (times > 1) say("I7", `${what}: it happened ${times} times on the other side: ${sendsOf(came)}`);
    if (what === "ping" && came.length > 1)
      say("I7", `${what}: sent ${came.length} times, at most once was promised`);
    checkInputs(what, came, say);
    if (what !== "notice") continue;
    const notes = noted.get(sent)?.length ?? 0;
    const expected = happened && !dead.has(sent) ? 1 : 0;
    if (notes !== expected) say("I9", `its delivery was noted ${notes} times, not ${expected}`);
  }
}

/** One key for one generation; only what can be closed has more than one. */
function checkInputs(what: string, came: readonly Send[], say: Say): void {
  if (new Set(came.map(({ input }) => input)).size > 1) say("I7", `${what}: other inputs: ${sendsOf(came)}`);
  const references = new Set(came.map(({ reference }) => reference));
  const mayBeReopened = came.some(({ deduplicated }) => !deduplicated);
  if (references.size > 1 && !mayBeReopened) say("I7", `${what}: other keys: ${sendsOf(came)}`);
}

function whatIsSent(route: Route): readonly ("call" | "notice" | "ping")[] {
  switch (route) {
    case "pay":
    case "grab":
      return [];
    case "order":
      return ["notice", "ping"];
    case "charge":
    case "report":
      return ["call", "notice"];
    default:
      return route satisfies never;
  }
}

function executionsOf(rows: readonly Row[]): string {
  return rows.map(({ execution, body }) => `${execution} (${body})`).join(", ");
}

function sendsOf(came: readonly Send[]): string {
  return came.map(({ server, reference }) => `${server} as ${reference}`).join(", ");
}

/** The middle of a longer history is left out. */
const linesMax = 60;

/** A violation and the key's history, for a person. */
export function textOf({ invariant, what, name }: Violation, log: ClientLog): string {
  if (name === null) return `${invariant}: ${what}`;
  const lines = log.of(name).map((entry) => `  ${lineOf(entry)}`);
  const shown =
    lines.length <= linesMax ? lines : [...lines.slice(0, linesMax - 5), "  …", ...lines.slice(-4)];
  return `${invariant}: ${textOfKey(name)}: ${what}\n${shown.join("\n")}`;
}
