import { type Answer, isAccepted, NoAnswer } from "../wire/answer.ts";
import { type Check, demandTelling, finalTriesMax } from "./check.ts";
import { ranAgain } from "./judge.ts";
import { answerToOther, otherBody, otherTemplate } from "./other-body.ts";

export const raceOtherBody: Check = {
  name: "race-other-body",
  about: "two simultaneous bodies under one key: at most one of them runs",
  needsReplays: true,
  requestsMax: ({ concurrency }) => 1 + concurrency + finalTriesMax,
  obstacle: otherBody.obstacle,
  async run(context) {
    demandTelling(context);
    await answerToOther(context);
    const key = context.newKey();
    const bodies = [context.intend(), context.intend(otherTemplate(context))] as const;
    const outcomes = await context.together(
      Array.from({ length: context.settings.concurrency }, (_, index) => ({
        intention: bodies[index % 2 === 0 ? 0 : 1],
        key,
      })),
    );
    const accepted = outcomes.filter(
      (outcome): outcome is Answer => !(outcome instanceof NoAnswer) && isAccepted(outcome),
    );
    const [winner] = accepted;
    if (winner === undefined || !accepted.some((answer) => ranAgain(context, winner, answer))) return;
    context.fault("misuse-race-ran", `of ${outcomes.length} requests at least two were executed`);
  },
};
