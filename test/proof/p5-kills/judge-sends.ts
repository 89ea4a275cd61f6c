/** Whether the other side has met what it should: each call once, and every repetition under its key. */
import type { Arrival } from "./other-side.ts";
import type { Story } from "./story.ts";
import { hold } from "./violation.ts";

/** Everything sent for the call of the order itself. */
export function sendsOf({ arrivals, order }: Story): readonly Arrival[] {
  return arrivals.filter(({ name }) => name === order.name);
}

/** The intent of the call was there, and no result of it. */
export function wasInDoubt({ wreck }: Story): boolean {
  return wreck.steps.some(({ name, state }) => name === "called" && state === "started");
}

/** @throws {Violation} */
export function judgeSends(story: Story): void {
  const { call } = story.mode.shape;
  const own = sendsOf(story);
  const after = sentAfter(story, story.order.name);
  judgeKeys(own, call === "provider" || story.mode.operation === "bare rerun");
  const finished = story.wreck.steps.some(({ name, state }) => name === "called" && state === "finished");
  hold("I10", !finished || after.length === 0, "a finished call was sent again");
  if (!wasInDoubt(story) || call === "provider") return;
  const doubtful = new Set(own.filter((one) => !after.includes(one)).map(({ key }) => key));
  const again = call === "reopen" ? after.filter(({ key }) => doubtful.has(key)) : after;
  hold("I6", again.length === 0, "a call in doubt was sent again");
}

/** What those sent who went on. */
export function sentAfter({ arrivals, arrivedBefore }: Story, wanted: string): readonly Arrival[] {
  return arrivals.slice(arrivedBefore).filter(({ name, late }) => name === wanted && !late);
}

/** @throws {Violation} I7: all sends under one key are one, and no two keys have taken effect */
export function judgeKeys(sends: readonly Arrival[], mayRepeat: boolean): void {
  const byKey = Map.groupBy(sends, ({ key }) => key);
  for (const [key, those] of byKey) {
    hold("I7", new Set(those.map(({ input }) => input)).size === 1, `two inputs under ${key}`);
    hold("I7", mayRepeat || those.length === 1, `${those.length} sends under ${key}`);
  }
  hold("I7", !mayRepeat || byKey.size <= 1, `sent again under another key: ${[...byKey.keys()].join(", ")}`);
  const effects = sends.filter(({ became }) => became === "effect");
  hold("I1", effects.length <= 1, `${effects.length} effects: ${JSON.stringify(sends)}`);
}
