/** Whether a cleaner that died has left alone what it must, and others have cleaned the rest. */
import { judgeHistory } from "./edges.ts";
import type { CleanedStory } from "./story.ts";
import { hold } from "./violation.ts";

/** @throws {Violation} */
export function judgeCleaning({ wreck, end }: CleanedStory): void {
  for (const seen of [wreck, end]) {
    for (const one of [seen.own, seen.undelivered, seen.waiting]) judgeHistory(one);
    hold("I12", seen.unknown.record?.state === "unknown", "an unknown record was cleaned");
    const undelivered = seen.undelivered.effects.some(({ state }) => state !== "delivered");
    hold(
      "I12",
      !undelivered || seen.undelivered.record !== null,
      "a record with an undelivered effect was cleaned",
    );
    hold(
      "I1",
      seen.own.placed === 1 && seen.undelivered.placed === 1,
      "an order was placed again, or is gone",
    );
  }
  const states = [end.own, end.undelivered, end.waiting].map(({ record }) => record?.state ?? "none");
  hold(
    "L1",
    states.every((state) => state === "none"),
    `after its retention: ${states.join(", ")}`,
  );
  const abandoned = end.waiting.history.some(({ was, now }) => was === "pending" && now === "failed");
  hold("S8", abandoned && end.waiting.placed === 0, "a request that waited for too long was run");
  hold(
    "L2",
    end.undelivered.effects.every(({ state }) => state === "delivered"),
    "an effect is not delivered",
  );
}
