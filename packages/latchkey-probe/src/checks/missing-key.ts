import { isAccepted } from "../wire/answer.ts";
import { type Check, type CheckContext, oneOf, say } from "./check.ts";
import { compare } from "./judge.ts";

export const missingKey: Check = {
  name: "missing-key",
  about: "a request without a key is refused if keys are required, and runs if they are not",
  needsReplays: false,
  requestsMax: () => 2,
  obstacle: () => null,
  async run(context) {
    const { target, profile } = context;
    const intention = context.intend();
    const answer = await context.sendRaw(intention, []);
    if (answer.status >= 500) {
      context.fault("missing-key-failed", `it is answered with ${say(answer)}`);
    } else if (isAccepted(answer)) {
      if (target.key === "required") {
        context.fault(
          "missing-key-accepted",
          `it is answered with ${say(answer)}; expected ${oneOf(profile.badKey)}`,
        );
      } else {
        await judgeUnkeyed(context, answer);
      }
    } else if (target.key === "optional") {
      context.fault("missing-key-refused", `it is answered with ${say(answer)}, although no key is required`);
    } else if (!profile.badKey.includes(answer.status)) {
      context.fault(
        "missing-key-status",
        `it is answered with ${say(answer)}; expected ${oneOf(profile.badKey)}`,
      );
    }
  },
};

/** If no key is required, two requests without one are two intentions. */
async function judgeUnkeyed(
  context: CheckContext,
  first: Awaited<ReturnType<CheckContext["send"]>>,
): Promise<void> {
  if (context.baseline.marks.size === 0) return;
  const second = await context.sendRaw(context.intend(), []);
  if (isAccepted(second) && compare(context, first, second).kind !== "other-run") {
    context.fault("no-key-shared", "a second request without a key gets the first one's answer");
  }
}
