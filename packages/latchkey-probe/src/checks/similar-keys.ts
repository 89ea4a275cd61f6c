import type { FaultCode } from "../faults.ts";
import { isAccepted } from "../wire/answer.ts";
import { type Check, type CheckContext, finalTriesMax, Inconclusive, say } from "./check.ts";
import { ranAgain } from "./judge.ts";

/** Below and above 255, the length at which many database columns end. */
const longKeyLengths = [250, 300];

export const similarKeys: Check = {
  name: "similar-keys",
  about: "keys that differ in case, or only at the end of a long key, are different keys",
  needsReplays: true,
  requestsMax: () => (1 + longKeyLengths.length) * (1 + finalTriesMax),
  obstacle: () => null,
  async run(context) {
    if (context.baseline.marks.size === 0) {
      throw new Inconclusive(
        "two executions answer alike, so it cannot be seen whether two keys were confused",
      );
    }
    const key = `Probe-Key-${context.newKey()}`;
    await judgePair(context, "key-case-folded", "in upper and lower case", [key, key.toLowerCase()]);
    for (const length of longKeyLengths) {
      const start = context.newKey().padEnd(length - 1, "0");
      await judgePair(context, "key-truncated", `in the last of ${length} characters`, [
        `${start}1`,
        `${start}2`,
      ]);
    }
  },
};

async function judgePair(
  context: CheckContext,
  code: FaultCode,
  where: string,
  [key, similar]: readonly [string, string],
): Promise<void> {
  const first = await context.send(context.intend(), key);
  if (first.status >= 500) {
    context.fault("malformed-key-failed", `a key of ${key.length} characters is answered with ${say(first)}`);
  }
  if (!isAccepted(first)) return;
  const second = await context.sendUntilFinal(context.intend(), similar);
  const { misuse, inProgress } = context.profile;
  const taken = isAccepted(second)
    ? !ranAgain(context, first, second)
    : [...misuse, ...inProgress].includes(second.status);
  if (!taken) return;
  context.fault(code, `a key that differs ${where} is answered with ${say(second)}, as if it had been used`);
}
