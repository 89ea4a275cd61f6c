/** One call of an agent's tool, from its key to its result: shared by all entry points for agents. */
import type { DirectExecution, Execution } from "../engine/classify.ts";
import { isLatchkeyError, LatchkeyError } from "../errors.ts";
import { keylessSubmission, nullAttempt } from "../execution/keyless.ts";
import { scopeOf } from "../execution/scope.ts";
import { fingerprintOf } from "../fingerprint/fingerprint.ts";
import { parseKey } from "../key/parse-key.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Answer } from "../operations/answer.ts";
import type { HandlerContext, Result, Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { type OwnedOperation, ownsItsWork } from "../operations/owned-operation.ts";
import { nonEmptyText } from "../plain-text.ts";
import {
  type KeyChoice,
  leavesDoubt,
  type RefusalReason,
  refusalOf,
  refusalOfResult,
  type ToolRefusal,
} from "./tool-refusals.ts";

/** What a handler gets after the arguments, without its SDK's own context. */
export type ToolContext<Tx, E extends Execution> = HandlerContext<Tx, E>;

/** Which call it is, who makes it, and under which key. */
export interface ToolCall {
  readonly tenant: unknown;
  readonly principal: unknown;
  /** As it was sent. Undefined or null: there is none. */
  readonly key: unknown;
  /** What must be equal in a repeated call, as JSON. */
  readonly input: unknown;
}

export interface ToolRules {
  readonly choice: KeyChoice;
  readonly withoutKey: "refuse" | "run";
  /** Tells the model where to put the key, if it is missing. */
  readonly wanted?: string;
}

/** The handler's result for a call. */
export interface Worked {
  readonly value: unknown;
  /** The tool reported an error as its result, which is stored like any result. */
  readonly isError: boolean;
  /** Not the final result: the client repeats the call under the same key. */
  readonly isInterim: boolean;
}

export type ToolOutcome =
  | { readonly kind: "result"; readonly value: unknown; readonly replayed: boolean; readonly status: number }
  | { readonly kind: "refused"; readonly refusal: ToolRefusal };

/**
 * Runs a tool's handler once for this call, or returns why it did not.
 *
 * @throws {LatchkeyError} `tenant-missing`, `identity-is-credential`, `shutting-down`.
 * @throws {TypeError} when the arguments or the result are not JSON.
 * @throws the handler's own errors, unless they leave the outcome in doubt.
 */
export async function runTool<Tx, E extends DirectExecution>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  call: ToolCall,
  rules: ToolRules,
  work: (context: ToolContext<Tx, E>) => Promise<Worked>,
): Promise<ToolOutcome> {
  const reading = readCall(latchkey, operation, call, rules);
  if (reading.kind === "refused") return reading;
  const { submission } = reading;
  if (submission === null && operation.execution === "lease") {
    // Without a record, the attempt of a lease has nothing to refer to.
    const attempt = nullAttempt(latchkey.runtime, operation);
    const { value } = await work({ attempt } as ToolContext<Tx, E>);
    return { kind: "result", value, replayed: false, status: 200 };
  }
  const standIn = keylessSubmission(latchkey.runtime, reading.tenant, scopeOf(operation));
  const thrown: unknown[] = [];
  const attempt = async (context: HandlerContext<Tx, E>): Promise<Answer> => {
    if (submission === null) context.attempt.retain(standIn.forgetAtOnce);
    try {
      const worked = await work(context);
      if (worked.isInterim) context.attempt.release();
      return answerOf(operation, worked);
    } catch (error) {
      thrown.push(error);
      throw error;
    }
  };
  const given = submission ?? standIn.submission;
  const execute = () => latchkey.execute(operation, given, attempt);
  return conclude(latchkey, operation, given, rules.choice, thrown, execute);
}

/** Like `runTool`, for an operation that owns its work. A call without a key runs under one that no client can send. */
export async function serveTool<Tx, E extends Execution, I>(
  latchkey: Latchkey<Tx>,
  operation: OwnedOperation<E, I>,
  call: ToolCall,
  rules: ToolRules,
  input: I,
): Promise<ToolOutcome> {
  const reading = readCall(latchkey, operation, call, rules);
  if (reading.kind === "refused") return reading;
  const { submission, tenant } = reading;
  const given = submission ?? keylessSubmission(latchkey.runtime, tenant, scopeOf(operation)).submission;
  const execute = () => latchkey.executeOwned(operation, given, input);
  return conclude(latchkey, operation, given, rules.choice, [], execute);
}

/** @throws {TypeError} for an operation of the other kind, or of another latchkey. */
export function checkToolOperation<Tx>(
  { runtime }: Latchkey<Tx>,
  operation: Operation,
  owned: boolean,
): void {
  const { name, settings } = operation;
  if (runtime.operations.get(name) !== operation) {
    throw new TypeError(`Operation ${name} was defined on another latchkey`);
  }
  if (ownsItsWork(operation) !== owned) {
    throw new TypeError(
      owned
        ? `Operation ${name} has no \`run\` to serve: pass its handler to protect`
        : `Operation ${name} owns its work, so it takes no handler: use serve`,
    );
  }
  if (settings.keyScope === "path") {
    throw new TypeError(
      `Operation ${name} has keyScope "path", and tool calls have no path: set keyScope to "operation"`,
    );
  }
}

type Reading =
  | { readonly kind: "refused"; readonly refusal: ToolRefusal }
  | { readonly kind: "read"; readonly tenant: string; readonly submission: Submission | null };

function readCall<Tx>(
  { runtime }: Latchkey<Tx>,
  operation: Operation,
  call: ToolCall,
  { choice, withoutKey, wanted }: ToolRules,
): Reading {
  const tenant = nonEmptyText(call.tenant);
  if (tenant === null) throw new LatchkeyError("tenant-missing");
  runtime.checkIdentity("tenant", tenant);
  const principal = principalOf(call.principal);
  if (principal !== null) runtime.checkIdentity("principal", principal);
  const refused = (reason: RefusalReason, detail?: string): Reading => ({
    kind: "refused",
    refusal: refusalOf(reason, choice, detail === undefined ? {} : { detail }),
  });
  if (call.key === undefined || call.key === null) {
    return withoutKey === "run" ? { kind: "read", tenant, submission: null } : refused("missing-key", wanted);
  }
  if (typeof call.key !== "string") return refused("invalid-key", "The idempotency key must be a string.");
  const read = parseKey([call.key], { syntax: "opaque" });
  if (!read.ok) return refused("invalid-key", read.detail);
  const key = { tenant, scope: scopeOf(operation), key: read.key };
  const fingerprint = fingerprintOf(operation.name, call.input ?? null);
  return { kind: "read", tenant, submission: { key, fingerprint, principal } };
}

function principalOf(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  const principal = nonEmptyText(value);
  if (principal === null) {
    throw new TypeError("`principal` must return a non-empty string, null or undefined");
  }
  return principal;
}

async function conclude<Tx>(
  { runtime }: Latchkey<Tx>,
  operation: Operation,
  { key }: Submission,
  choice: KeyChoice,
  thrown: readonly unknown[],
  execute: () => Promise<Result>,
): Promise<ToolOutcome> {
  try {
    const result = await execute();
    if (result.kind !== "executed" && result.kind !== "replay") {
      return { kind: "refused", refusal: refusalOfResult(result, choice) };
    }
    const { answer, kind } = result;
    if (answer.omitted !== null) return { kind: "refused", refusal: refusalOf("answer-not-stored", choice) };
    return { kind: "result", value: parsed(answer), replayed: kind === "replay", status: answer.status };
  } catch (error) {
    if (thrown.includes(error)) {
      const isProven = () => codeOf(error) === "not-executed" || operation.settings.isNotExecuted(error);
      if (!leavesDoubt(operation.execution, isProven)) throw error;
      const detail = `The tool failed: ${error instanceof Error ? error.message : String(error)}.`;
      return { kind: "refused", refusal: refusalOf("outcome-unknown", choice, { detail }) };
    }
    if (codeOf(error) !== "store-unavailable") throw error;
    runtime.emit({ ...runtime.about(operation.name, runtime.storedKey(key)), type: "store_error", error });
    return { kind: "refused", refusal: refusalOf("store-unavailable", choice, { retryAfterMs: 1_000 }) };
  }
}

function codeOf(error: unknown): string | null {
  return isLatchkeyError(error) ? error.code : null;
}

/** A tool's error is a final answer, like a 4xx. */
function answerOf({ name }: Operation, { value, isError }: Worked): Answer {
  const json: string | undefined = value === undefined ? "" : JSON.stringify(value);
  if (json === undefined) {
    throw new TypeError(`The result of ${name} is not JSON: return plain data, not a ${typeof value}`);
  }
  return {
    status: isError ? 422 : 200,
    headers: [["Content-Type", "application/json"]],
    body: Buffer.from(json, "utf8"),
    omitted: null,
  };
}

function parsed({ body }: Answer): unknown {
  const json = Buffer.from(body).toString("utf8");
  return json === "" ? undefined : JSON.parse(json);
}
