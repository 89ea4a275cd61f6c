import type { ProbeSettings } from "../settings.ts";
import { type Answer, headerOf, isAccepted, NoAnswer } from "../wire/answer.ts";
import { type Check, type CheckContext, demandTelling, finalTriesMax, oneOf, say } from "./check.ts";
import { countedOnce, judgeRetry, ranAgain } from "./judge.ts";

const rounds = 2;

export const race: Check = {
  name: "race",
  about: "simultaneous requests with the same key run once; the others are refused, or get the same answer",
  needsReplays: true,
  requestsMax: ({ concurrency }: ProbeSettings) => rounds * (concurrency + finalTriesMax),
  obstacle: () => null,
  async run(context) {
    demandTelling(context);
    for (let round = 0; round < rounds; round++) {
      await countedOnce(context, "race-ran-twice", () => raceOnce(context));
    }
  },
};

async function raceOnce(context: CheckContext): Promise<void> {
  const intention = context.intend();
  const key = context.newKey();
  const outcomes = await context.together(
    Array.from({ length: context.settings.concurrency }, () => ({ intention, key })),
  );
  const answers = outcomes.filter((outcome): outcome is Answer => !(outcome instanceof NoAnswer));
  const lost = outcomes.find((outcome) => outcome instanceof NoAnswer);
  if (lost !== undefined) {
    context.fault("no-answer", `one of ${outcomes.length} requests got no answer: ${lost.message}`);
  }
  for (const answer of answers) judgeRefusal(context, answer);
  noteOverlap(context, answers);
  const accepted = answers.filter(isAccepted);
  const [winner] = accepted;
  const other = accepted.find((answer) => winner !== undefined && ranAgain(context, winner, answer));
  if (other !== undefined) {
    context.fault("race-ran-twice", `of ${answers.length} requests at least two were executed`);
    return;
  }
  judgeAfterwards(context, winner, await context.sendUntilFinal(intention, key));
}

function judgeRefusal(context: CheckContext, answer: Answer): void {
  const { inProgress, retryAfter } = context.profile;
  if (answer.status >= 500) {
    context.fault(
      "race-failed",
      `one request is answered with ${say(answer)}; expected ${oneOf(inProgress)}, or the first answer`,
    );
  } else if (!isAccepted(answer) && !inProgress.includes(answer.status)) {
    context.fault(
      "race-status",
      `one request is answered with ${say(answer)}; expected ${oneOf(inProgress)}, or the first answer`,
    );
  } else if (!isAccepted(answer) && headerOf(answer, "retry-after") === null) {
    const text = `${answer.status} has no Retry-After`;
    if (retryAfter) context.fault("race-no-retry-after", text);
    else context.note(text);
  }
}

function judgeAfterwards(context: CheckContext, winner: Answer | undefined, afterwards: Answer): void {
  if (winner !== undefined) {
    judgeRetry(context, winner, afterwards, {
      ranTwice: "race-ran-twice",
      refused: "race-stuck",
      failed: "race-failed",
    });
  } else if (!isAccepted(afterwards)) {
    context.fault(
      "race-stuck",
      `no request was accepted, and a later one is answered with ${say(afterwards)}`,
    );
  }
}

/** Requests that arrived one after another prove little. */
function noteOverlap(context: CheckContext, answers: readonly Answer[]): void {
  const firstEnd = Math.min(...answers.map(({ answeredAt }) => answeredAt));
  const under = answers.filter(({ sentAt }) => sentAt < firstEnd).length;
  if (under < 2) context.note("the server had answered one request before the next was sent");
}
