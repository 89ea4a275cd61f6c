/** What a model reads if there is no result to return. A model acts on sentences, so each one says what to do next. */
import type { Execution } from "../engine/classify.ts";
import type { Result } from "../operations/attempt.ts";
import type { ProblemCode } from "../operations/policies/policy.ts";

export type RefusalReason = Exclude<
  ProblemCode,
  "request-too-old" | "invalid-request-date" | "payload-too-large" | "not-found"
>;

/** Why a call has no result. It carries the same facts as an HTTP problem. */
export interface ToolRefusal {
  readonly reason: RefusalReason;
  readonly message: string;
  /** Whether the same call may be repeated under the same key. */
  readonly retryable: boolean;
  /** Whether a new call, under a new key, is safe. If false, it could take effect twice. */
  readonly safeNewKey: boolean;
  readonly retryAfterMs: number | null;
}

/**
 * Who chooses the key. `caller`: a client that can send the same key again. `sdk`: the key is the id of the model's call, so
 * the model's next call has a new one.
 */
export type KeyChoice = "caller" | "sdk";

interface Advice {
  readonly retryable: boolean;
  readonly safeNewKey: boolean;
  readonly happened: string;
  readonly todo: Readonly<Record<KeyChoice, string>>;
}

const again = "call the tool again with the same arguments and the same idempotency key";
const noNewCall =
  "Do not call the tool again for the same purpose: that is a new call, and it could happen twice.";
const makeNew = {
  caller: "Call the tool with a new idempotency key.",
  sdk: "The tool may be called again.",
};

const advice: Readonly<Record<RefusalReason, Advice>> = {
  "missing-key": {
    retryable: false,
    safeNewKey: true,
    happened: "This tool needs an idempotency key. Nothing was done.",
    todo: {
      caller: "Send one that is new for every new intention, and the same again with every retry.",
      sdk: "The program that runs the agent must pass the id of this call.",
    },
  },
  "invalid-key": {
    retryable: false,
    safeNewKey: true,
    happened: "The idempotency key cannot be used. Nothing was done.",
    todo: { caller: "Call the tool with another key, such as a UUID.", sdk: makeNew.sdk },
  },
  "key-misuse": {
    retryable: false,
    safeNewKey: false,
    happened:
      "This idempotency key was first used with other arguments, and that call may have taken effect. Nothing was done now.",
    todo: {
      caller:
        "If this is a retry of that call, send its exact arguments again. Only something new may have a new key.",
      sdk: "Find out whether the first call took effect before you make a new one for the same purpose.",
    },
  },
  "in-progress": {
    retryable: true,
    safeNewKey: false,
    happened: "The first run of this call has not ended.",
    todo: { caller: `Wait, then ${again}. Do not use a new key: it could happen twice.`, sdk: noNewCall },
  },
  "outcome-unknown": {
    retryable: false,
    safeNewKey: false,
    happened: "This call may or may not have taken effect. Its outcome is still being determined.",
    todo: {
      caller: `Do not use a new key: it could happen twice. Check whether it happened, ask a person, or later ${again} to learn the outcome.`,
      sdk: `${noNewCall} Check whether it happened, or ask a person.`,
    },
  },
  "commit-in-doubt": {
    retryable: true,
    safeNewKey: false,
    happened: "This call was executed, but whether it took effect could not be confirmed in time.",
    todo: { caller: `Wait, then ${again}: it does not happen twice.`, sdk: noNewCall },
  },
  timeout: {
    retryable: false,
    safeNewKey: true,
    happened: "This call was accepted but never started, and will not be.",
    todo: makeNew,
  },
  expired: {
    retryable: false,
    safeNewKey: false,
    happened: "This call was completed, and its result is no longer stored.",
    todo: { caller: "Do not repeat it: a new key makes it happen again.", sdk: noNewCall },
  },
  "answer-not-stored": {
    retryable: false,
    safeNewKey: false,
    happened: "This call was completed, and its result was too large to store.",
    todo: { caller: "Do not repeat it: a new key makes it happen again.", sdk: noNewCall },
  },
  "too-many-keys": {
    retryable: true,
    safeNewKey: false,
    happened: "Too many idempotency keys were used recently. Nothing was done by this attempt.",
    todo: { caller: `Wait, then ${again}.`, sdk: "Wait before you call the tool again." },
  },
  "store-unavailable": {
    retryable: true,
    safeNewKey: false,
    happened: "It cannot be checked at the moment whether this call was made before.",
    todo: { caller: `Wait, then ${again}.`, sdk: `${noNewCall} Report that the service is unavailable.` },
  },
};

/** The facts of one refusal. */
export interface RefusalFacts {
  /** Placed before the advice, such as what is wrong with a key. */
  readonly detail?: string;
  readonly safeNewKey?: boolean;
  readonly retryAfterMs?: number | null;
}

export function refusalOf(reason: RefusalReason, choice: KeyChoice, facts: RefusalFacts = {}): ToolRefusal {
  const { retryable, safeNewKey, happened, todo } = advice[reason];
  const { detail, retryAfterMs = null } = facts;
  const wait =
    retryAfterMs === null ? [] : [`Wait at least ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s.`];
  const sentences = [...(detail === undefined ? [] : [detail]), happened, todo[choice], ...wait];
  return {
    reason,
    message: sentences.join(" "),
    retryable,
    safeNewKey: facts.safeNewKey ?? safeNewKey,
    retryAfterMs,
  };
}

/** The refusal for a result without an answer. */
export function refusalOfResult(
  result: Exclude<Result, { readonly kind: "executed" | "replay" }>,
  choice: KeyChoice,
): ToolRefusal {
  switch (result.kind) {
    case "in_progress":
    case "accepted":
      return refusalOf("in-progress", choice, { retryAfterMs: result.retryAfterMs });
    case "key_misuse":
      return result.nothingHappened === true
        ? { ...refusalOf("key-misuse", choice, { safeNewKey: true }), message: neverStarted[choice] }
        : refusalOf("key-misuse", choice);
    case "unknown":
      return refusalOf("outcome-unknown", choice, { retryAfterMs: result.retryAfterMs });
    case "commit_in_doubt":
      return refusalOf("commit-in-doubt", choice, { retryAfterMs: result.retryAfterMs });
    case "too_many_keys":
      return refusalOf("too-many-keys", choice, { retryAfterMs: result.retryAfterMs });
    case "expired":
    case "timeout":
      return refusalOf(result.kind, choice);
    default:
      return result satisfies never;
  }
}

const other = "This idempotency key belongs to another call, which was never started and will not be.";
const neverStarted: Readonly<Record<KeyChoice, string>> = {
  caller: `${other} ${makeNew.caller}`,
  sdk: `${other} ${makeNew.sdk}`,
};

/** Whether an error of the handler leaves open how far it got. */
export function leavesDoubt(execution: Execution, isProven: () => boolean): boolean {
  if (execution !== "lease") return false;
  try {
    return isProven() !== true;
  } catch {
    return true;
  }
}
