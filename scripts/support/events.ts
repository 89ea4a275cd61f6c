/** Every event of `onEvent`: its meaning, and whether it should alert a person. */
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
    means: "A request got the stored answer, and nothing ran a second time.",
    alert: "no",
  },
  accepted: { means: "A deferred request was answered 202. A worker runs it.", alert: "no" },
  in_progress: {
    means: "A duplicate of a running request waited for `waitMs` and was refused.",
    alert: "rate",
    why: "raise `waitMs`, or find out why the first request takes so long",
  },
  key_misuse: {
    means:
      "A key came with another request (`fingerprint`), from another `principal`, or for another `operation`.",
    alert: "rate",
    why: "a client's bug, or an attacker who tries keys",
  },
  expired: {
    means: "A retry came when its answer had expired and its key was still known: 410.",
    alert: "rate",
    why: "clients retry for longer than `retentionMs`",
  },
  unknown: { means: "A request was refused because the outcome of its key is unknown.", alert: "no" },
  too_many_keys: { means: "A tenant is over a limit: 429.", alert: "rate" },
  limiter_error: { means: "A rate limiter failed; the request went on without it.", alert: "ticket" },
} as const satisfies Group["events"];

const lives = {
  reserved: { means: "A key's first record was written, before its work began.", alert: "no" },
  claimed: { means: "A worker has taken a deferred request that waited.", alert: "no" },
  taken_over: {
    means:
      "A new attempt took a record over: from a dead owner (`in_progress`), or from a failed attempt (`retryable`).",
    alert: "rate",
    why: "from `in_progress`: processes die, or a lease is too short",
  },
  lease_lost: {
    means: "An attempt lost its lease to another and was aborted.",
    alert: "rate",
    why: "the process pauses for longer than `leaseMs`",
  },
  lease_rescued: {
    means: "A dead attempt was settled as `unknown`.",
    alert: "ticket",
    why: "`latchkey inspect` shows what is in doubt; a look-up may still settle it",
  },
  released: { means: "An attempt ended and left no record: the key is free.", alert: "no" },
  retryable: {
    means: "An attempt ended without its effect, or before its end. The next attempt continues it.",
    alert: "no",
  },
  became_unknown: {
    means: "The outcome of an attempt is not known. Its key is locked until it is settled.",
    alert: "page",
    why: "or, where a look-up settles unknowns, page at `dead_letter` only",
  },
  attempt_failed: {
    means: "The handler threw, or made a harmless mistake such as answering twice.",
    alert: "rate",
    why: "log its `error`: it appears nowhere else",
  },
} as const satisfies Group["events"];

const steps = {
  step_finished: { means: "A step was recorded with its result; it never runs again.", alert: "no" },
  step_resumed: { means: "A finished step gave its stored result without running.", alert: "no" },
  attempt_resumed: { means: "An attempt continues after the last finished step.", alert: "no" },
  call_in_doubt: {
    means: "A call may have happened, and this attempt cannot find out.",
    alert: "no",
    why: "`became_unknown` or a retry follows",
  },
  settled: { means: "A look-up, a webhook or a person settled an unknown.", alert: "no" },
  forgotten: {
    means: "An operator made Latchkey forget a finished record: its key may run as new.",
    alert: "no",
  },
  retried: {
    means: "An operator ended a wait: a worker resumes the record, or its outcome is looked up again.",
    alert: "no",
  },
  settlement_kept: {
    means:
      "A webhook settled a record that was not unknown yet. It is kept in case the record becomes unknown.",
    alert: "no",
  },
  reconcile_scheduled: { means: "The other service does not know yet. It is asked again.", alert: "no" },
  reconcile_failed: { means: "Asking the other service failed.", alert: "rate" },
  reconcile_resolved: {
    means: "The outcome-reconciler found out what became of an unknown.",
    alert: "no",
  },
  dead_letter: {
    means: "An unknown record has run out of automatic ways forward and waits for a person.",
    alert: "page",
    why: "its client gets 409 until `latchkey settle`",
  },
} as const satisfies Group["events"];

const store = {
  commit_in_doubt: {
    means: "The reply to a COMMIT was lost. `resolved` is what a look-up found.",
    alert: "rate",
    why: "connections break; `in_doubt` means that the look-up found nothing out in time",
  },
  transaction_rerun: {
    means: "A transaction was rolled back and its handler runs again.",
    alert: "rate",
    why: "`serialization`: many transactions write the same rows; `lost`: connections break",
  },
  transaction_changed: {
    means: "A handler ended its transaction itself, so its outcome is unknown.",
    alert: "page",
    why: "a bug in that handler",
  },
  summary_failed: {
    means: "A request's summary could not be redacted or encoded. Its record has none.",
    alert: "rate",
    why: "`redact` or the codec throws",
  },
  tx_unused: {
    means:
      "A handler answered 2xx and wrote nothing through its `tx`. Outside production the request fails with [`tx-unused`](errors.md#errors).",
    alert: "ticket",
    why: 'the handler writes past its transaction, or its operation lacks `writes: "none"`',
  },
  store_error: { means: "A call to the store failed; the request got 503.", alert: "rate" },
  circuit_opened: {
    means: "The store did not answer. New requests are refused for a while without asking it.",
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
      "An effect has run out of automatic ways forward and waits for a person. So do the effects behind it in its aggregate.",
    alert: "page",
    why: "`latchkey list --dead`",
  },
  effect_left: {
    means: "A worker could not write how a delivery ended. The delivery is rescued when the claim ends.",
    alert: "rate",
  },
  effects_rescued: { means: "Claims of a dead worker were freed.", alert: "rate", why: "workers die" },
} as const satisfies Group["events"];

const messages = {
  message_failed: { means: "The handler of a message failed.", alert: "rate", why: "log its `error`" },
  message_given_back: { means: "The broker is asked to deliver a message again.", alert: "no" },
  message_dead: {
    means: "A message has run out of automatic ways forward and waits for a person.",
    alert: "page",
    why: "`latchkey list --dead --messages`",
  },
} as const satisfies Group["events"];

const workers = {
  worker_started: { means: "A worker started in this process.", alert: "no" },
  worker_stopped: {
    means: "It stopped. `inTime: false`: something was still running, and its lease will end by itself.",
    alert: "rate",
    why: "`inTime: false`: give the worker longer before the platform kills it",
  },
  facts_dropped: {
    means: "`count` repeated requests and look-ups were not kept with their records.",
    alert: "no",
    why: "without `error` there were too many at once; with one the store failed",
  },
  service_error: {
    means: "A round of a background service failed. The next round tries again.",
    alert: "rate",
    why: "log its `error`",
  },
  cleaned: { means: "What the record-cleaner removed in one round, by kind.", alert: "no" },
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
