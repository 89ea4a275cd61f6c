import { isAccepted } from "../wire/answer.ts";
import { type Check, type CheckContext, Inconclusive, say } from "./check.ts";
import { firstAnswer } from "./judge.ts";

export const otherRoute: Check = {
  name: "other-route",
  about: "a key that was used on one route never returns that route's answer on another route",
  needsReplays: true,
  requestsMax: () => 3,
  obstacle: (target, { targets }) =>
    targets.some((other) => isOther(target, other)) ? null : "there is only one route",
  async run(context) {
    const { target, settings } = context;
    const other = settings.targets.find((candidate) => isOther(target, candidate));
    if (other === undefined) throw new Inconclusive("there is only one route");
    const key = context.newKey();
    const first = await firstAnswer(context, context.intend(), key);
    const answer = await context.send(context.intend(other.body, other), key);
    if (!isAccepted(answer) || first.body.length === 0 || !first.body.equals(answer.body)) return;
    const control = await context.send(context.intend(other.body, other), context.newKey());
    if (control.body.equals(answer.body)) return;
    context.fault(
      "route-leak",
      `${other.name} is answered with ${say(answer)}, with the body of ${target.name}`,
    );
  },
};

type Routed = Pick<CheckContext["target"], "method" | "url">;

function isOther(one: Routed, other: Routed): boolean {
  return one.method !== other.method || one.url.href !== other.url.href;
}
