/** What a model is told where a tool's result cannot be given. A model acts on sentences, so each says what to do next. */
import type { Execution } from "../engine/classify.ts";
import type { Result } from "../operations/attempt.ts";
import type { ProblemCode } from "../operations/policies/policy.ts";

export type RefusalReason = Exclude<
  ProblemCode,
  "request-too-old" | "invalid-request-date" | "payload-too-large" | "not-found"
>;

/** Why a call has no result. The same facts as in an HTTP problem. */
export interface ToolRefusal {
  readonly reason: RefusalReason;
  readonly message: string;
  /** Whether the same call under the same key may be made again. */
  readonly retryable: boolean;
  /** Whether a new call, under a new key, is safe. Where it is false, it could take effect twice. */
  readonly safeNewKey: boolean;
  readonly retryAfterMs: number | null;
}

/**
 * Who chooses the key. `caller`: a client that can send the same key again. `sdk`: it is the id of the model's call, so that
 * whatever the model does next has a new one.
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
      sdk: "The program that runs the agent must say by which id it knows this call.",
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
      sdk: "Find out what became of the first call before you make a new one for the same purpose.",
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
    happened: "This call may or may not have taken effect. That is being found out.",
    todo: {
      caller: `Do not use a new key: it could happen twice. Check what became of it, ask a person, or later ${again} to learn the outcome.`,
      sdk: `${noNewCall} Check what became of it, or ask a person.`,
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
    happened: "This call was completed, and its result is no longer kept.",
    todo: { caller: "Do not repeat it: a new key makes it happen again.", sdk: noNewCall },
  },
  "answer-not-stored": {
    retryable: false,
    safeNewKey: false,
    happened: "This call was completed, and its result was too large to keep.",
    todo: { caller: "Do not repeat it: a new key makes it happen again.", sdk: noNewCall },
  },
  "too-many-keys": {
    retryable: true,
    safeNewKey: false,
    happened: "Too many idempotency keys were used in this time. Nothing was done by this attempt.",
    todo: { caller: `Wait, then ${again}.`, sdk: "Wait before you call the tool again." },
  },
  "store-unavailable": {
    retryable: true,
    safeNewKey: false,
    happened: "Whether this call was made before cannot be looked up at the moment.",
    todo: { caller: `Wait, then ${again}.`, sdk: `${noNewCall} Say that the service is away.` },
  },
};

/** What is known of one occurrence. */
export interface RefusalFacts {
  /** Said before the advice, such as what was wrong with a key. */
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

/** The refusal of a result without an answer. */
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

/** Whether what a handler has thrown leaves it open how far it came. */
export function leavesDoubt(execution: Execution, isProven: () => boolean): boolean {
  if (execution !== "lease") return false;
  try {
    return isProven() !== true;
  } catch {
    return true;
  }
}
