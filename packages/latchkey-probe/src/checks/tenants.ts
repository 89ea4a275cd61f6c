import { isAccepted } from "../wire/answer.ts";
import { type Check, finalTriesMax, Inconclusive, say } from "./check.ts";
import { firstAnswer, ranAgain } from "./judge.ts";

export const tenants: Check = {
  name: "tenants",
  about: "two callers that choose the same key are independent",
  needsReplays: true,
  requestsMax: () => 2 + 2 * finalTriesMax,
  obstacle: (_, { otherCredentials }) =>
    otherCredentials === null
      ? "no second caller is known; pass the credentials of another tenant with --other-header"
      : null,
  async run(context) {
    const control = await context.send(context.intend(), context.newKey(), { caller: 2 });
    if (!isAccepted(control)) {
      throw new Inconclusive(`the second caller is not accepted under a new key (${say(control)})`);
    }
    if (context.baseline.marks.size === 0) {
      throw new Inconclusive("two executions answer alike, so it cannot be seen whose answer it is");
    }
    const intention = context.intend();
    const key = context.newKey();
    const first = await firstAnswer(context, intention, key);
    const other = await context.sendUntilFinal(intention, key, { caller: 2 });
    if (!isAccepted(other)) {
      context.fault(
        "tenant-collision",
        `the second caller is answered with ${say(other)} for a key that only the first has used`,
      );
    } else if (!ranAgain(context, first, other)) {
      context.fault("tenant-leak", "the second caller gets the answer that belongs to the first one");
    }
    const again = await context.sendUntilFinal(intention, key);
    if (!isAccepted(again) || ranAgain(context, first, again)) {
      context.fault(
        "tenant-overwrote",
        `the first caller's retry is answered with ${say(again)}, not with its answer`,
      );
    }
  },
};
