import { type Answer, headerOf } from "../wire/answer.ts";
import { type Check, type CheckContext, demandTelling, finalTriesMax } from "./check.ts";
import { compare, countedOnce, firstAnswer, isMarked, judgeRetry } from "./judge.ts";

const retries = 3;

export const sameKey: Check = {
  name: "same-key",
  about: "a retry with the same key gets the first answer: status, headers and bytes; nothing runs again",
  needsReplays: false,
  requestsMax: () => 1 + retries * finalTriesMax,
  obstacle: () => null,
  async run(context) {
    const intention = context.intend();
    const key = context.newKey();
    const answers = await countedOnce(context, "ran-twice", async () => {
      const first = await firstAnswer(context, intention, key);
      judgeFirst(context, first, key);
      const again: Answer[] = [];
      for (let round = 0; round < retries; round++) {
        const answer = await context.sendUntilFinal(intention, key);
        again.push(answer);
        judgeReplay(context, first, answer, key);
      }
      return again;
    });
    if (!answers.every(isMarked)) demandTelling(context);
  },
};

function judgeFirst(context: CheckContext, first: Answer, key: string): void {
  if (isMarked(first)) {
    context.fault("first-marked", "the answer to a new key says Idempotent-Replayed: true");
  }
  judgeEcho(context, first, key);
}

function judgeReplay(context: CheckContext, first: Answer, again: Answer, key: string): void {
  const faults = { ranTwice: "ran-twice", refused: "retry-refused", failed: "retry-failed" } as const;
  if (!judgeRetry(context, first, again, faults)) return;
  const comparison = compare(context, first, again);
  if (comparison.kind === "unfaithful") {
    for (const { of, text } of comparison.differences) context.fault(`replay-${of}`, text);
  }
  judgeMarker(context, again);
  judgeCookie(context, first, again);
  judgeEcho(context, again, key);
}

function judgeMarker(context: CheckContext, again: Answer): void {
  if (isMarked(again)) return;
  const text = "the replay does not say Idempotent-Replayed: true";
  if (context.profile.marksReplays) context.fault("replay-unmarked", text);
  else context.note(text);
}

/** A cookie that is the same in all answers does not belong to one caller. */
function judgeCookie(context: CheckContext, first: Answer, again: Answer): void {
  const [set, setAgain] = [headerOf(first, "set-cookie"), headerOf(again, "set-cookie")];
  if (set === null || set !== setAgain || set === headerOf(context.baseline.answer, "set-cookie")) return;
  context.fault("replay-cookie", "the replay has the Set-Cookie of the first answer");
}

function judgeEcho({ profile, settings, fault }: CheckContext, answer: Answer, key: string): void {
  if (!profile.echoesKey) return;
  const echoed = headerOf(answer, settings.keyHeader.toLowerCase());
  if (echoed !== null && echoed.replace(/^"(.*)"$/u, "$1") === key) return;
  fault("key-not-echoed", `the answer ${echoed === null ? "has no" : "has another"} ${settings.keyHeader}`);
}
