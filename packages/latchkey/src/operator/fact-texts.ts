/** Facts as text. Words of a later version are shown unchanged. */
import type { FactMeaning } from "../stores/facts.ts";

const repeats: Readonly<Record<string, string>> = {
  replay: "got the stored answer",
  timeout: "was refused: no worker had started it in time",
  in_progress: "was refused: an attempt was under way",
  unknown: "was refused: the outcome was unknown",
  expired: "was refused: the answer had expired",
  key_misuse: "was refused: the key had been used for another request",
};

const misuses: Readonly<Record<string, string>> = {
  fingerprint: "the key came with another request",
  principal: "the key came from another principal",
  operation: "the key came for another operation",
};

/** Follows "a request that came again". */
export function repeatText({ what, because }: FactMeaning): string {
  const misuse = what === "key_misuse" && because !== null ? misuses[because] : undefined;
  if (misuse !== undefined) return `was refused: ${misuse}`;
  return repeats[what] ?? what;
}

const lookUps: Readonly<Record<string, string>> = {
  failed: "failed",
  ask_later: "found nothing certain yet",
  settle_call: "found the call's result",
  settle_completed: "found that it was completed",
  settle_failed: "found that it failed for good",
  settle_not_executed: "found that it may continue",
};

/** Follows "a look-up". */
export function lookUpText({ what, because }: FactMeaning): string {
  if (what === "person") return because === null ? "left it to a person" : `left it to a person: ${because}`;
  const text = lookUps[what] ?? what;
  return because === null ? text : `${text} (${because})`;
}
