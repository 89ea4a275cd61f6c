import { type Answer, isAccepted } from "../wire/answer.ts";
import { type Check, type CheckContext, oneOf, say } from "./check.ts";
import { compare } from "./judge.ts";

export const malformedKey: Check = {
  name: "malformed-key",
  about: "an empty, broken or repeated key is refused, and is never treated as one key shared by all",
  needsReplays: false,
  requestsMax: () => 4,
  obstacle: () => null,
  async run(context) {
    await judgeEmpty(context);
    await judgeBroken(context, "a key with an unterminated quote", [`"${context.newKey()}`]);
    await judgeBroken(context, "two keys in two header lines", [context.newKey(), context.newKey()]);
  },
};

async function judgeEmpty(context: CheckContext): Promise<void> {
  const first = await context.sendRaw(context.intend(), [""]);
  if (!isAccepted(first)) {
    judgeRefusal(context, "an empty key", first);
    return;
  }
  const second = await context.sendRaw(context.intend(), [""]);
  const isShared = context.baseline.marks.size > 0 && compare(context, first, second).kind !== "other-run";
  if (isShared) {
    context.fault(
      "no-key-shared",
      `a second request with an empty key is answered with ${say(second)}, from the first one`,
    );
  } else if (context.target.key === "required") {
    context.fault(
      "empty-key-accepted",
      `it is answered with ${say(first)}; expected ${oneOf(context.profile.badKey)}`,
    );
  }
}

/** If keys are opaque, a broken structured field may be a valid key. */
async function judgeBroken(context: CheckContext, what: string, keyLines: readonly string[]): Promise<void> {
  const answer = await context.sendRaw(context.intend(), keyLines);
  if (!isAccepted(answer)) judgeRefusal(context, what, answer);
  else if (context.profile.syntax === "structured") {
    context.fault(
      "malformed-key-accepted",
      `${what} is answered with ${say(answer)}; expected ${oneOf(context.profile.badKey)}`,
    );
  } else context.note(`${what} is accepted`);
}

function judgeRefusal({ profile, fault }: CheckContext, what: string, answer: Answer): void {
  if (answer.status >= 500) fault("malformed-key-failed", `${what} is answered with ${say(answer)}`);
  else if (!profile.badKey.includes(answer.status)) {
    fault(
      "malformed-key-status",
      `${what} is answered with ${say(answer)}; expected ${oneOf(profile.badKey)}`,
    );
  }
}
