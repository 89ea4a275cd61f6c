/** Whether each effect was delivered once, or is where a person finds it. */
import { judgeKeys, sentAfter } from "./judge-sends.ts";
import type { Seen, SeenEffect } from "./observers.ts";
import type { Story } from "./story.ts";
import { hold } from "./violation.ts";
import { noticeOf } from "./work.ts";

/** @throws {Violation} */
export function judgeDeliveries(story: Story): void {
  const { wreck, beforeLate, end } = story;
  for (const seen of [wreck, beforeLate, end]) if (seen !== null) judgeRows(story, seen);
  for (const row of end.effects) judgeDelivery(story, row);
  if (story.mode.notices.includes("ordered")) judgeOrder(story);
}

/** An effect is there exactly when its transaction has committed. */
function judgeRows({ mode, order }: Story, seen: Seen): void {
  const committed = mode.shape.settled ? seen.settled : seen.placed;
  const answers = mode.operation.endsWith(" delivery") ? 1 : 0;
  for (let index = 0; index < order.notices.length + answers; index++) {
    const name = noticeOf(order.name, index);
    const rows = seen.effects.filter((row) => row.name === name).length;
    hold("I9", rows === committed, `${rows} rows of ${name}, ${committed} transactions`);
  }
}

/** What dead letters of a kind are called. */
const deadly: Readonly<Record<string, string>> = {
  close: "closed-downstream",
  lookup: "call-in-doubt",
  none: "call-in-doubt",
};

function judgeDelivery(story: Story, row: SeenEffect): void {
  const { arrivals, wreck, end } = story;
  const { name, effect, state, errorCode } = row;
  const kind = effect.split("-")[1] ?? "provider";
  const sends = arrivals.filter((arrival) => arrival.name === name);
  const effects = sends.filter(({ became }) => became === "effect");
  const noted = end.noted.filter((one) => one === name).length;
  const what = `${name} (${effect}) is ${state} (${errorCode}), ${effects.length} effects, noted ${noted}`;
  judgeKeys(sends, kind === "provider");
  const doubtful = wreck.effects.some(
    (one) => one.id === row.id && one.doubtful && one.state !== "delivered",
  );
  const known = wreck.effects.some((one) => one.id === row.id && one.hasResult);
  const after = sentAfter(story, name);
  const mayRepeat = kind === "provider" || kind === "reopen";
  hold("I6", mayRepeat || !doubtful || after.length === 0, `${what}, and was sent again`);
  hold("I10", !known || after.length === 0, `${what}, and was sent again`);
  if (state === "delivered") {
    hold("L2", effects.length === 1, what);
    hold("I1", noted === (effect.startsWith("notice-") ? 0 : 1), what);
    return;
  }
  const mayDie = deadly[kind] === errorCode && doubtful;
  hold("L2", state === "dead" && mayDie, what);
  const unseen = kind === "none" || effects.every(({ late }) => late);
  hold("L2", noted === 0 && unseen, what);
}

/** Of one aggregate, one after the other; what comes late is recognised. */
function judgeOrder({ arrivals, order }: Story): void {
  const those = arrivals.filter(({ name, late }) => name !== order.name && !late);
  const names = those.map(({ name }) => name);
  const inOrder = names.every((name, index) => index === 0 || name >= (names[index - 1] ?? ""));
  hold("E3", inOrder, `delivered as ${names.join("; ")}`);
}
