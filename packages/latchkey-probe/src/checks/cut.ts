import { type Answer, headerOf, isAccepted } from "../wire/answer.ts";
import type { CutAt } from "../wire/send.ts";
import { type Check, type CheckContext, finalTriesMax, say } from "./check.ts";
import { countedOnce, judgeRetry } from "./judge.ts";

const cuts = {
  half: "in the middle of the request",
  sent: "after the request",
  answer: "during the answer",
} as const;

/** A client's pause before it retries. The checks of races show what a retry gets while the first request runs. */
const pauseMs = 300;

export const cut: Check = {
  name: "cut",
  about: "after a cut connection a retry is answered, and a request that has run does not run again",
  needsReplays: true,
  requestsMax: () => 3 * (2 + finalTriesMax),
  obstacle: () => null,
  async run(context) {
    const places: readonly CutAt[] =
      context.target.body.length < 2 ? ["sent", "answer"] : ["half", "sent", "answer"];
    for (const cutAt of places) {
      await countedOnce(context, "cut-ran-twice", () => cutOnce(context, cutAt));
    }
  },
};

async function cutOnce(context: CheckContext, cutAt: CutAt): Promise<void> {
  const intention = context.intend();
  const key = context.newKey();
  const head = await context.cut(intention, key, cutAt);
  await context.settings.timing.wait(pauseMs);
  const retry = await context.sendUntilFinal(intention, key);
  const when = `the connection was cut ${cuts[cutAt]}, and`;
  if (!isAccepted(retry)) {
    const code = retry.status >= 500 ? "cut-failed" : "cut-stuck";
    context.fault(code, `${when} the retry is answered with ${say(retry)}`);
    return;
  }
  if (head !== null && isAccepted(head) && isOfOtherRun(context, head, retry)) {
    context.fault("cut-ran-twice", `${when} the retry has the headers of another execution`);
    return;
  }
  const last = await context.send(intention, key);
  judgeRetry(context, retry, last, { ranTwice: "cut-ran-twice", refused: "cut-stuck", failed: "cut-failed" });
}

/** Judged by the headers only, because the body was cut off. */
function isOfOtherRun({ baseline }: CheckContext, head: Answer, retry: Answer): boolean {
  const names = [...baseline.marks].filter((mark) => mark.startsWith("header ")).map((mark) => mark.slice(7));
  return names.some((name) => {
    const [before, after] = [headerOf(head, name), headerOf(retry, name)];
    return before !== null && after !== null && before !== after;
  });
}
