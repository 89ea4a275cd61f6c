/** Every event of `onEvent`: what it means, and whether it is one to wake a person for. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { repositoryRoot } from "./repository.ts";
import { renderTable } from "./sections.ts";

type EventName = LatchkeyEvent["type"];

/** `page`: customers wait, or something may have been lost or repeated; `ticket`: within a working day; `rate`: more than usual. */
type Alert = "page" | "ticket" | "rate" | "no";

interface Meaning {
  readonly means: string;
  readonly alert: Alert;
  /** What to do, or what to compare it with. */
  readonly why?: string;
}

interface Group {
  readonly title: string;
  readonly events: Readonly<Partial<Record<EventName, Meaning>>>;
}

const requests = {
  executed: { means: "An attempt has ended and its answer is stored.", alert: "no" },
  replayed: {
    means: "A request was answered with the stored answer: a second execution that did not happen.",
    alert: "no",
  },
  accepted: { means: "A deferred request was answered 202: a worker runs it, or will.", alert: "no" },
  in_progress: {
    means: "A duplicate of a running request was refused, after `waitMs`.",
    alert: "rate",
    why: "raise `waitMs`, or find out why the first one takes so long",
  },
  key_misuse: {
    means:
      "A key came with another request (`fingerprint`), from another `principal`, or for another `operation`.",
    alert: "rate",
    why: "a client's bug, or an attacker who tries keys",
  },
  expired: {
    means: "A retry came after the answer's time, while the key is still known: 410.",
    alert: "rate",
    why: "clients retry for longer than `retentionMs`",
  },
  unknown: { means: "A request was answered that the outcome of its key is unknown.", alert: "no" },
  too_many_keys: { means: "A tenant is over a limit: 429.", alert: "rate" },
  limiter_error: { means: "A rate limiter failed; the request went on without it.", alert: "ticket" },
} as const satisfies Group["events"];

const lives = {
  reserved: { means: "A key's first record was written before its work.", alert: "no" },
  claimed: { means: "A worker has taken a deferred request that waited.", alert: "no" },
  taken_over: {
    means:
      "Another attempt has the record: that of a dead owner (`in_progress`), or one that was to be tried again.",
    alert: "rate",
    why: "from `in_progress`: processes die, or a lease is too short",
  },
  lease_lost: {
    means: "An attempt found that its lease is no longer its own, and was aborted.",
    alert: "rate",
    why: "pauses are longer than `leaseMs`",
  },
  lease_rescued: {
    means: "A dead attempt was settled as `unknown`.",
    alert: "ticket",
    why: "`latchkey inspect` says what is in doubt; a look-up may still find it out",
  },
  released: { means: "An attempt has ended and left no record: the key is free.", alert: "no" },
  retryable: { means: "An attempt has ended so that the next one continues it.", alert: "no" },
  became_unknown: {
    means: "It is not known what became of an attempt; its key is locked until it is settled.",
    alert: "page",
    why: "unless a look-up settles it: then `dead_letter` is enough",
  },
  attempt_failed: {
    means: "The handler threw, or did something wrong that changes nothing, such as answering twice.",
    alert: "rate",
    why: "log its `error`: nothing else has it",
  },
} as const satisfies Group["events"];

const steps = {
  step_finished: { means: "A step was recorded with its result; it never runs again.", alert: "no" },
  step_resumed: { means: "A finished step gave its stored result without running.", alert: "no" },
  attempt_resumed: { means: "An attempt goes on after the last finished step.", alert: "no" },
  call_in_doubt: {
    means: "A call may have happened, and this attempt cannot find out.",
    alert: "no",
    why: "`became_unknown` or a retry follows",
  },
  settled: { means: "An unknown was settled, by a look-up, a webhook or a person.", alert: "no" },
  forgotten: {
    means: "An operator ended the time of a finished record: its key may run as new.",
    alert: "no",
  },
  retried: {
    means: "An operator ended a wait: a worker resumes the record, or its outcome is looked up again.",
    alert: "no",
  },
  settlement_kept: {
    means: "A webhook came before its record was unknown: it is kept in case it becomes so.",
    alert: "no",
  },
  reconcile_scheduled: { means: "The other side could not say yet, and is asked again.", alert: "no" },
  reconcile_failed: { means: "Asking the other side failed.", alert: "rate" },
  reconcile_resolved: {
    means: "The outcome-reconciler has found out what became of an unknown.",
    alert: "no",
  },
  dead_letter: {
    means: "Nothing automatic is left for an unknown record: it waits for a person.",
    alert: "page",
    why: "its customer gets 409 until `latchkey settle`",
  },
} as const satisfies Group["events"];

const store = {
  commit_in_doubt: {
    means: "A COMMIT's reply was lost. `resolved` says what a look-up found.",
    alert: "rate",
    why: "connections break under load; `in_doubt` beside them is what was not found out in time",
  },
  transaction_rerun: {
    means: "A transaction was rolled back and its handler runs again.",
    alert: "rate",
    why: "`serialization`: rows that many transactions write; `lost`: connections break",
  },
  transaction_changed: {
    means: "A handler ended its transaction itself, so its outcome is unknown.",
    alert: "page",
    why: "a bug in that handler",
  },
  summary_failed: {
    means: "What a request asked for could not be redacted or encoded: its record has no summary.",
    alert: "rate",
    why: "`redact` throws, or the codec does",
  },
  tx_unused: {
    means: "A handler answered 2xx and wrote nothing through its `tx`. An error outside production.",
    alert: "ticket",
    why: 'it writes past its transaction, or should say `writes: "none"`',
  },
  store_error: { means: "A call to the store failed; the request got 503.", alert: "rate" },
  circuit_opened: {
    means: "The store did not answer, and is not asked for new requests for a while.",
    alert: "page",
  },
  circuit_closed: { means: "The store answers again.", alert: "no" },
  ran_unprotected: {
    means: 'The store failed, and the operation ran without a record (`onStoreFailure: "run-unprotected"`).',
    alert: "ticket",
    why: "compare with your ledger",
  },
} as const satisfies Group["events"];

const effects = {
  effect_delivered: { means: "An effect of the outbox was delivered.", alert: "no" },
  effect_retried: { means: "A delivery failed and is tried again.", alert: "rate", why: "log its `error`" },
  effect_dead: {
    means:
      "Nothing automatic is left for an effect: it waits for a person, and so do those behind it in its aggregate.",
    alert: "page",
    why: "`latchkey list --dead`",
  },
  effect_left: {
    means: "A delivery's end was not written by its holder; it is rescued when the claim ends.",
    alert: "rate",
  },
  effects_rescued: { means: "Claims of a dead worker were freed.", alert: "rate", why: "workers die" },
} as const satisfies Group["events"];

const messages = {
  message_failed: { means: "A handler failed at a message.", alert: "rate", why: "log its `error`" },
  message_given_back: { means: "The broker is asked to deliver a message again.", alert: "no" },
  message_dead: {
    means: "Nothing automatic is left for a message: it waits for a person.",
    alert: "page",
    why: "`latchkey list --dead --messages`",
  },
} as const satisfies Group["events"];

const workers = {
  worker_started: { means: "A worker runs in this process.", alert: "no" },
  worker_stopped: {
    means: "It has stopped. `inTime: false`: something was still under way, and is left to its lease.",
    alert: "rate",
    why: "`inTime: false`: give it longer before the platform kills it",
  },
  facts_dropped: {
    means: "So many repeated requests and look-ups were not kept with their records.",
    alert: "no",
    why: "without `error` there were too many at once; with it the store failed",
  },
  service_error: {
    means: "A round of a background service failed; the next one comes.",
    alert: "rate",
    why: "log its `error`",
  },
  cleaned: { means: "The record-cleaner removed so many.", alert: "no" },
} as const satisfies Group["events"];

/** A new event needs a meaning here. */
const all = {
  ...requests,
  ...lives,
  ...steps,
  ...store,
  ...effects,
  ...messages,
  ...workers,
} as const satisfies Readonly<Record<EventName, Meaning>>;

const groups: readonly Group[] = [
  { title: "Requests", events: requests },
  { title: "Attempts and their records", events: lives },
  { title: "Steps, and what is in doubt", events: steps },
  { title: "The store and its transactions", events: store },
  { title: "Effects of the outbox", events: effects },
  { title: "Messages of brokers", events: messages },
  { title: "Workers", events: workers },
];

/** All events, a table for each group. */
export function renderEvents(): string {
  const members = membersOf(readFileSync(join(repositoryRoot, source), "utf8"));
  return groups
    .map(({ title, events }) => `### ${title}\n\n${renderTable(heads, rowsOf(events, members))}`)
    .join("\n\n");
}

const source = "packages/latchkey/src/telemetry/events.ts";
const heads = ["Event", "Meaning", "Alert", "Members"];

function rowsOf(events: Group["events"], members: ReadonlyMap<string, readonly string[]>) {
  return Object.entries<Meaning>(events).map(([name, { means, alert, why }]) => [
    `\`${name}\``,
    means,
    why === undefined ? alert : `${alert}: ${why}`,
    (members.get(name) ?? []).map((member) => `\`${member}\``).join(", "),
  ]);
}

/** The members that each event has of its own, as the type says. */
function membersOf(text: string): ReadonlyMap<string, readonly string[]> {
  const union = text.slice(
    text.indexOf("export type LatchkeyEvent"),
    text.indexOf("export type EventListener"),
  );
  const members = new Map<string, readonly string[]>();
  for (const [, body = ""] of union.matchAll(/\{([^}]*)\}/g)) {
    const [, name = ""] = /type: "(\w+)"/.exec(body) ?? [];
    members.set(name, [...body.matchAll(/readonly (\w+):/g)].map(([, member = ""]) => member).slice(1));
  }
  const unread = Object.keys(all).filter((name) => !members.has(name));
  if (unread.length > 0) throw new TypeError(`${source} has no event ${unread.join(", ")}`);
  return members;
}
