import type { Answer } from "../wire/answer.ts";
import { isAccepted } from "../wire/answer.ts";
import { type Check, type CheckContext, finalTriesMax, Inconclusive, oneOf, say } from "./check.ts";
import { compare, firstAnswer, ranAgain } from "./judge.ts";

const noOther =
  "no other body is known; pass --other-body, or a JSON body with a number or a string to change";

export const otherBody: Check = {
  name: "other-body",
  about: "another body under a used key is refused, runs nothing, and leaves the first answer unchanged",
  needsReplays: true,
  requestsMax: () => 2 + 2 * finalTriesMax,
  obstacle: ({ otherBody }) => (otherBody === null ? noOther : null),
  async run(context) {
    const control = await answerToOther(context);
    const intention = context.intend();
    const key = context.newKey();
    const first = await firstAnswer(context, intention, key);
    const answer = await sendOther(context, key);
    judgeMisuse(context, first, answer, control);
    const again = await context.sendUntilFinal(intention, key);
    judgeFirstKept(context, first, answer, again);
  },
};

/** If both have the same status, a permanent refusal cannot be distinguished from a temporary one. */
function sendOther(context: CheckContext, key: string): Promise<Answer> {
  const { misuse, inProgress } = context.profile;
  const intention = context.intend(otherTemplate(context));
  const isAmbiguous = misuse.some((status) => inProgress.includes(status));
  return isAmbiguous ? context.send(intention, key) : context.sendUntilFinal(intention, key);
}

export function otherTemplate({ target }: CheckContext): string {
  if (target.otherBody === null) throw new Inconclusive(noOther);
  return target.otherBody;
}

/** The answer to the other body under its own key. @throws {Inconclusive} if the server does not accept it */
export async function answerToOther(context: CheckContext): Promise<Answer> {
  const answer = await context.send(context.intend(otherTemplate(context)), context.newKey());
  if (isAccepted(answer)) return answer;
  throw new Inconclusive(
    `the other body is not accepted under its own key (${say(answer)}); pass another one with --other-body`,
  );
}

function judgeMisuse(context: CheckContext, first: Answer, answer: Answer, control: Answer): void {
  const { misuse } = context.profile;
  if (answer.status >= 500) {
    context.fault("misuse-failed", `it is answered with ${say(answer)}; expected ${oneOf(misuse)}`);
  } else if (isAccepted(answer)) {
    const ran = isOfOther(context, first, answer, control);
    context.fault(
      ran ? "misuse-ran" : "misuse-replayed",
      ran
        ? `it is answered with ${say(answer)} by a separate execution; expected ${oneOf(misuse)}`
        : `it is answered with ${say(answer)}, like the first body; expected ${oneOf(misuse)}`,
    );
  } else if (!misuse.includes(answer.status)) {
    context.fault("misuse-status", `it is answered with ${say(answer)}; expected ${oneOf(misuse)}`);
  }
}

/**
 * Whether an accepted answer belongs to the other body, judged by what differs between executions, or otherwise between the
 * bodies.
 */
function isOfOther(context: CheckContext, first: Answer, answer: Answer, control: Answer): boolean {
  if (context.baseline.marks.size > 0) return ranAgain(context, first, answer);
  if (compare(context, first, answer).kind === "same") return false;
  return compare(context, control, answer).kind === "same";
}

/** Repeating the key alone does not run again, otherwise this check would be skipped; so the other body is the cause. */
function judgeFirstKept(context: CheckContext, first: Answer, other: Answer, again: Answer): void {
  const isOthers = isAccepted(other) && compare(context, other, again).kind === "same";
  if (!isAccepted(again)) {
    context.fault("misuse-overwrote", `a retry of the first body is answered with ${say(again)} afterwards`);
  } else if (ranAgain(context, first, again)) {
    const what = isOthers ? "gets the other one's answer" : "runs again";
    context.fault("misuse-overwrote", `a retry of the first body ${what}`);
  }
}
