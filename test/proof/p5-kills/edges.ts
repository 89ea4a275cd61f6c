/** What the life of a record may look like, by the table of the protocol, written down once more. */
import type { Seen } from "./observers.ts";
import { hold } from "./violation.ts";

/** Everything that may follow a state. Another attempt, or a recovery point, leaves `in_progress` as it is. */
const next: Readonly<Record<string, readonly string[]>> = {
  none: ["completed", "in_progress", "pending"],
  pending: ["in_progress", "failed"],
  in_progress: ["in_progress", "completed", "failed", "unknown", "retryable", "none"],
  retryable: ["in_progress", "completed"],
  unknown: ["unknown", "completed", "retryable", "failed"],
  completed: ["expired", "none"],
  failed: ["expired", "none"],
  expired: ["none"],
};
/** Recovery points, in the order in which a run comes to them. */
const points = [null, "placed", "called", "settled"];

/** @throws {Violation} */
export function judgeHistory({ history, audit, stepChanges }: Seen): void {
  let attempt = 0;
  let point = 0;
  let id = "";
  for (const seen of history) {
    const { was, now, nowAttempt } = seen;
    const line = `${was} → ${now}`;
    const isFinal = was === "completed" || was === "failed";
    hold(isFinal ? "I5" : "S2", next[was]?.includes(now) === true, `${line} is no edge`);
    if (seen.recordId !== id) [id, attempt, point] = [seen.recordId, 0, 0];
    if (nowAttempt === null) continue;
    hold("I13", nowAttempt >= attempt, `attempt ${nowAttempt} after ${attempt}`);
    // The first attempt of what was accepted is the first of all.
    const begins = now === "in_progress" && was !== now && was !== "pending";
    hold("S2", !begins || nowAttempt > attempt, `${line} under attempt ${attempt} again`);
    attempt = nowAttempt;
    const reached = points.indexOf(seen.point);
    hold("I10", reached >= point || now === "none", `the recovery point goes back to ${seen.point}`);
    point = Math.max(point, reached);
  }
  const left = history.filter(({ was, now }) => was === "unknown" && now !== "unknown");
  const decided = audit.filter(({ from }) => from === "unknown");
  hold("I6", left.length === decided.length, `${left.length} ends of unknown, ${decided.length} decisions`);
  for (const { proof } of decided) hold("I6", proof !== "", "a decision without a proof");
  const [change] = stepChanges;
  hold("I10", change === undefined, `finished step ${change?.name}: ${change?.did}`);
}
