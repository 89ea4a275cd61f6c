import { type Answer, headerOf, isAccepted } from "../wire/answer.ts";
import { type Check, type CheckContext, finalTriesMax, Inconclusive, say } from "./check.ts";
import { isMarked } from "./judge.ts";

const noFailing = "no request is known that fails; pass one with --failing-body or --failing-url";

export const serverError: Check = {
  name: "server-error",
  about:
    "after a 5xx the key is not blocked, the error is not replayed as a success, and nothing takes effect twice",
  needsReplays: true,
  requestsMax: () => 2 + finalTriesMax,
  obstacle: ({ failing }) => (failing === null ? noFailing : null),
  async run(context) {
    const { failing } = context.target;
    if (failing === null) throw new Inconclusive(noFailing);
    const intend = () => context.intend(failing.body, { ...context.target, url: failing.url });
    const before = await context.count();
    const intention = intend();
    const key = context.newKey();
    const first = await context.send(intention, key);
    if (first.status < 500)
      throw new Inconclusive(`the failing request is answered with ${say(first)}, which is not a 5xx`);
    const between = await context.count();
    const again = await context.sendUntilFinal(intention, key);
    const after = await context.count();
    if (before !== null && between !== null && after !== null && between > before && after > between) {
      context.fault(
        "error-ran-twice",
        `${between - before} effect before the retry, ${after - before} after it`,
      );
    }
    const control = await context.send(intend(), context.newKey());
    judgeAgain(context, first, again, control);
  },
};

function judgeAgain(context: CheckContext, first: Answer, again: Answer, control: Answer): void {
  const { serverErrors } = context.profile;
  if (again.status < 500 && !isAccepted(again)) {
    judgeRefusal(context, again);
    return;
  }
  const isSameBody = first.body.equals(again.body);
  if (isAccepted(again) && isSameBody && first.body.length > 0) {
    context.fault("error-as-success", `${say(first)} is replayed as ${say(again)}`);
    return;
  }
  const isTelling = !first.body.equals(control.body);
  const isReplay = again.status === first.status && isSameBody && (isMarked(again) || isTelling);
  const isOtherRun = again.status !== first.status || !isSameBody;
  if (serverErrors === "release" && isReplay) {
    context.fault("error-replayed", `${say(first)} is replayed, so a retry can never succeed`);
  } else if (serverErrors === "store" && isOtherRun) {
    context.fault("error-not-replayed", `${say(first)} became ${say(again)} on the retry`);
  } else {
    context.note(
      isReplay
        ? `${say(first)} is replayed`
        : isOtherRun
          ? "the retry ran"
          : `the retry is answered with ${say(again)}`,
    );
  }
}

/** A permanent refusal with an explanation is how a server says that it does not know what happened. */
function judgeRefusal(context: CheckContext, again: Answer): void {
  const explains =
    headerOf(again, "content-type")?.includes("json") === true && headerOf(again, "retry-after") === null;
  const text = `the retry is answered with ${say(again)}`;
  if (explains || !context.profile.inProgress.includes(again.status)) context.note(text);
  else context.fault("error-stuck", `${text}, repeatedly`);
}
