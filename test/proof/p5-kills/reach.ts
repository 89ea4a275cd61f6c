/** What was seen to happen: a proof in which nothing of it happens has shown nothing. */
import { sendsOf } from "./judge-sends.ts";
import type { Arrival } from "./other-side.ts";
import type { CleanedStory, Story } from "./story.ts";

export type Counts = Readonly<Record<string, number>>;

export function addCounts(one: Counts, other: Counts): Counts {
  const sum: Record<string, number> = { ...one };
  for (const [what, count] of Object.entries(other)) sum[what] = (sum[what] ?? 0) + count;
  return sum;
}

/** Every counter that a story raises, by one each. */
export function reachedBy(story: Story | CleanedStory): Counts {
  const seen = story.kind === "cleaned" ? events(story) : all(story);
  return Object.fromEntries([...new Set(seen)].map((what) => [what, 1]));
}

function all(story: Story): readonly string[] {
  return [
    ...commits(story),
    ...states(story),
    ...story.end.audit.map(({ proof }) => `settled: ${proof}`),
    ...events(story),
    ...sends(story),
    ...lateness(story),
  ];
}

function commits({ point, replies, mode }: Story): readonly string[] {
  const [first] = replies;
  if (mode.shape.settled || !mode.shape.placed || point.port !== "commit" || first === undefined) return [];
  if (first.kind === "answer") {
    return [`unanswered COMMIT: ${first.how === "replay" ? "committed" : "rolled back"}`];
  }
  return first.kind === "in_progress" ? ["unanswered COMMIT: waited for"] : [];
}

function states({ end }: Story): readonly string[] {
  const found = end.history.some(({ now }) => now === "unknown");
  return [
    ...(found ? ["found unknown"] : []),
    ...(end.record?.state === "unknown" ? ["left to a person"] : []),
  ];
}

function events({ events: seen }: Pick<Story, "events">): readonly string[] {
  return seen.flatMap((event) => {
    switch (event.type) {
      case "attempt_resumed":
        return ["resumed"];
      case "executed":
        return event.attempt > 1 ? ["run again"] : [];
      case "effect_delivered":
        return ["delivered"];
      case "effect_dead":
        return [`dead effect: ${event.errorCode}`];
      case "effects_rescued":
        return ["claim of a dead process freed"];
      case "cleaned":
        return [...(event.forgotten > 0 ? ["forgotten"] : []), ...(event.abandoned > 0 ? ["abandoned"] : [])];
      default:
        return [];
    }
  });
}

function sends(story: Story): readonly string[] {
  const became = (what: Arrival["became"]) => story.arrivals.some((arrival) => arrival.became === what);
  const byName = Map.groupBy(story.arrivals, ({ name }) => name);
  const repeated = [...byName.values()].some(
    (those) => new Set(those.map(({ key }) => key)).size < those.length,
  );
  const anew =
    new Set(sendsOf(story).map(({ key }) => key)).size > 1 ||
    story.end.audit.some(({ proof, to }) => proof === "closed-downstream" && to === "retryable") ||
    story.end.effects.some(({ reopened }) => reopened);
  return [
    ...(became("known") ? ["known downstream"] : []),
    ...(became("refused") ? ["late send refused downstream"] : []),
    ...(repeated ? ["sent again under its key"] : []),
    ...(anew ? ["sent under a new key"] : []),
  ];
}

function lateness({ beforeLate, end }: Story): readonly string[] {
  if (beforeLate === null) return [];
  const same = JSON.stringify(beforeLate) === JSON.stringify(end);
  return [same ? "came late and changed nothing" : "came late and was dealt with"];
}
