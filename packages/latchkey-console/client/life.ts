/**
 * Turns the known facts about a record into a list of events and into a picture. Pure. Claims nothing that the records do not
 * show: the time at which a record became unknown is not stored, so the picture shows it after the last known event.
 */
import type { RecordReport, StepView } from "../src/wire.ts";

export interface LifeEvent {
  /** ISO 8601. */
  readonly at: string;
  readonly kind: "admitted" | "phase" | "sent" | "ended" | "effect" | "settled" | "finished" | "now";
  readonly step: StepView | null;
  readonly effect: RecordReport["effects"][number] | null;
  readonly audit: RecordReport["audit"][number] | null;
}

const nothing = { step: null, effect: null, audit: null } as const;

/** Oldest first; events with the same time are in the order in which they happen. */
export function eventsOf(report: RecordReport): readonly LifeEvent[] {
  const events: LifeEvent[] = [{ ...nothing, at: report.createdAt, kind: "admitted" }];
  for (const step of report.steps) {
    if (step.call === null) {
      events.push({ ...nothing, at: step.finishedAt ?? report.createdAt, kind: "phase", step });
      continue;
    }
    events.push({ ...nothing, at: step.call.startedAt, kind: "sent", step });
    if (step.finishedAt !== null) events.push({ ...nothing, at: step.finishedAt, kind: "ended", step });
  }
  for (const effect of report.effects) {
    events.push({ ...nothing, at: effect.createdAt, kind: "effect", effect });
    if (effect.finishedAt !== null) events.push({ ...nothing, at: effect.finishedAt, kind: "ended", effect });
  }
  const own = report.audit.filter(({ recordId }) => recordId === report.id);
  for (const audit of own) events.push({ ...nothing, at: audit.at, kind: "settled", audit });
  if (report.finishedAt !== undefined) events.push({ ...nothing, at: report.finishedAt, kind: "finished" });
  events.sort((left, right) => Date.parse(left.at) - Date.parse(right.at));
  events.push({ ...nothing, at: report.now, kind: "now" });
  return events;
}

export interface Anchor {
  readonly x: number;
  readonly at: string;
  /** The time without events before it, if the picture leaves that time out; otherwise null. */
  readonly cutMs: number | null;
}

export type BandState =
  | "pending"
  | "in_progress"
  | "unknown"
  | "retryable"
  | "completed"
  | "failed"
  | "expired";

export interface Band {
  readonly state: BandState;
  readonly from: number;
  readonly to: number;
}

export interface Life {
  readonly width: number;
  readonly anchors: readonly Anchor[];
  readonly bands: readonly Band[];
  /** The horizontal position of a moment. */
  readonly xOf: (at: string) => number;
}

const left = 132;
const right = 1_144;
/** Longer pauses are left out: activity is drawn completely, waiting is not. */
const cutShare = 4;

/** Moments at equal distances: the order matters, and the pauses are labelled with their lengths. */
export function lifeOf(report: RecordReport): Life {
  const times = [...new Set(eventsOf(report).map(({ at }) => Date.parse(at)))].sort((a, b) => a - b);
  const gap = (right - left) / Math.max(1, times.length - 1 + cutShare * 0.25);
  const typical = medianOf(times.slice(1).map((time, index) => time - (times[index] ?? time)));
  const anchors = times.map((time, index): Anchor => {
    const sinceMs = time - (times[index - 1] ?? time);
    const isCut = index > 0 && sinceMs > 1_000 && sinceMs > typical * cutShare;
    return { x: left + index * gap, at: new Date(time).toISOString(), cutMs: isCut ? sinceMs : null };
  });
  const xOf = (at: string) => anchors.find(({ at: one }) => Date.parse(one) === Date.parse(at))?.x ?? left;
  return { width: right, anchors, bands: bandsOf(report, xOf), xOf };
}

function medianOf(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

/** The state changes when the record is settled, when it finishes, and some time after the last known event. */
function bandsOf(report: RecordReport, xOf: (at: string) => number): readonly Band[] {
  const bands: Band[] = [];
  const events = eventsOf(report);
  const settled = events.filter(
    ({ kind, audit }) => kind === "settled" && audit?.effectId === null && audit.event.startsWith("settle"),
  );
  let from = xOf(report.createdAt);
  let state: BandState = report.state === "pending" ? "pending" : "in_progress";
  for (const { at, audit } of settled) {
    const before = events
      .filter(({ at: other, kind }) => kind !== "now" && Date.parse(other) < Date.parse(at))
      .at(-1);
    const doubtFrom = Math.max(from, before === undefined ? from : xOf(before.at));
    if (doubtFrom > from) bands.push({ state, from, to: doubtFrom });
    bands.push({ state: "unknown", from: doubtFrom, to: xOf(at) });
    from = xOf(at);
    state = audit?.to === "completed" || audit?.to === "failed" ? audit.to : "retryable";
  }
  const end = right;
  if (
    report.finishedAt !== undefined &&
    (report.state === "completed" || report.state === "failed" || report.state === "expired")
  ) {
    const finished = xOf(report.finishedAt);
    if (finished > from)
      bands.push({ state: state === "retryable" ? "retryable" : "in_progress", from, to: finished });
    bands.push({ state: report.state, from: Math.max(from, finished), to: end });
    return bands;
  }
  if (report.state === "unknown" || report.state === "retryable") {
    const last = events.filter(({ kind }) => kind !== "now").at(-1);
    const until = last === undefined ? from : Math.max(from, xOf(last.at));
    if (until > from) bands.push({ state, from, to: until });
    bands.push({ state: report.state, from: until, to: end });
    return bands;
  }
  bands.push({ state: report.state === "in_progress" ? "in_progress" : state, from, to: end });
  return bands;
}

type AuditEntry = RecordReport["audit"][number];

/** A change in few words. */
export function changeText({ event, from, to }: AuditEntry): string {
  if (event === "forget") return `${from}, forgotten`;
  return event === "retry" && from === to ? `${from}, retried` : `${from} → ${to}`;
}

/** What was decided, to be shown after the name of the person who decided. */
export function decisionText({ event, effectId, from, to }: AuditEntry): string {
  const isMessage = effectId === null && to === "none" && from === "dead";
  const what = effectId !== null ? "one of its effects" : isMessage ? "the message" : "it";
  switch (event) {
    case "forget":
      return "forgot it: its key may run as new";
    case "retry":
      return "retried it";
    case "redrive":
      return isMessage ? "published the message again" : `sent ${what} again`;
    case "discard":
      return `discarded ${what}`;
    case "confirm":
      return `confirmed ${what}: ${from} → ${to}`;
    case "delete_tenant":
      return `deleted ${what} with its tenant`;
    default:
      return `settled ${what}: ${from} → ${to}`;
  }
}
