/** Runs a function under an operation, without HTTP. */
import type { Execution } from "../engine/classify.ts";
import { fingerprintOf } from "../fingerprint/fingerprint.ts";
import { MAX_KEY_LENGTH } from "../key/parse-key.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Answer } from "../operations/answer.ts";
import type { HandlerContext, Result, Submission, Work } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { summaryOf } from "../operations/summary.ts";
import { valueOfAnswer } from "./answer-of-run.ts";
import { scopeOf } from "./scope.ts";

export interface RunRequest {
  /** The tenant on whose behalf it runs; from authentication, never from the input. */
  readonly tenant: string;
  /** The idempotency key, 1 to 255 characters. */
  readonly key: string;
  /** The request as JSON. The same key with another input is key misuse. */
  readonly input: unknown;
  /** The caller within the tenant. A replay to another principal is refused. Default: none. */
  readonly principal?: string;
}

const requestNames = {
  tenant: true,
  key: true,
  input: true,
  principal: true,
} as const satisfies OptionNames<RunRequest>;

export type RunResult<R> =
  | { readonly kind: "executed" | "replay"; readonly recordId: string; readonly value: R }
  /** It ran once; its value was too large to store. */
  | { readonly kind: "answer_not_stored"; readonly recordId: string }
  | Exclude<Result, { readonly kind: "executed" | "replay" }>;

type Execute<Tx> = <E extends Execution>(
  operation: Operation<E>,
  submission: Submission,
  work: Work<Tx, E>,
) => Promise<Result>;

export async function runFunction<Tx, E extends Execution, R>(
  execute: Execute<Tx>,
  operation: Operation<E>,
  request: RunRequest,
  work: (context: HandlerContext<Tx, E>) => Promise<R>,
): Promise<RunResult<R>> {
  const submission = submissionOf(operation, request);
  const result = await execute(operation, submission, async (context) =>
    answerOf(operation, await work(context)),
  );
  switch (result.kind) {
    case "executed":
      return { kind: "executed", recordId: result.recordId, value: parseValue<R>(result.answer) };
    case "replay":
      return result.answer.omitted === null
        ? { kind: "replay", recordId: result.recordId, value: parseValue<R>(result.answer) }
        : { kind: "answer_not_stored", recordId: result.recordId };
    default:
      return result;
  }
}

/** How a run of an operation that owns its work ended. */
export type OwnedRunResult =
  | {
      readonly kind: "executed" | "replay";
      readonly recordId: string;
      readonly status: number;
      /** The answer's body: JSON, or bytes if its content type is another. */
      readonly value: unknown;
    }
  | Exclude<RunResult<unknown>, { readonly kind: "executed" | "replay" }>;

export interface OwnedRunRequest<I> extends RunRequest {
  readonly input: I;
}

export async function runOwnedFunction(
  operation: Operation,
  request: RunRequest,
  execute: (submission: Submission) => Promise<Result>,
): Promise<OwnedRunResult> {
  const result = await execute(submissionOf(operation, request));
  if (result.kind !== "executed" && result.kind !== "replay") return result;
  const { kind, recordId, answer } = result;
  if (answer.omitted !== null) return { kind: "answer_not_stored", recordId };
  return { kind, recordId, status: answer.status, value: valueOfAnswer(answer) };
}

function submissionOf(operation: Operation, request: RunRequest): Submission {
  checkOptions(`run: operation ${operation.name}`, request, requestNames);
  requireText("tenant", request.tenant);
  requireText("key", request.key);
  if (request.key.length > MAX_KEY_LENGTH) {
    throw new TypeError(`key must have at most ${MAX_KEY_LENGTH} characters`);
  }
  return {
    key: { tenant: request.tenant, scope: scopeOf(operation), key: request.key },
    fingerprint: fingerprintOf(operation.name, request.input),
    principal: request.principal ?? null,
    ...summaryOf(operation, () => ({ method: null, path: null, value: () => request.input })),
  };
}

function requireText(field: string, value: unknown): void {
  if (typeof value !== "string" || value.length === 0)
    throw new TypeError(`${field} must be a non-empty string`);
}

/** `undefined` has no JSON form; it is stored as an empty body. */
function answerOf(operation: Operation, value: unknown): Answer {
  const json = value === undefined ? "" : jsonOf(operation, value);
  return { status: 200, headers: [], body: Buffer.from(json, "utf8"), omitted: null };
}

function jsonOf({ name }: Operation, value: unknown): string {
  let cause: unknown;
  try {
    const json: string | undefined = JSON.stringify(value);
    if (json !== undefined) return json;
    cause = new TypeError(`a ${typeof value} has no JSON`);
  } catch (error) {
    cause = error;
  }
  const why = cause instanceof Error ? cause.message.split("\n")[0] : String(cause);
  throw new TypeError(
    `The result of ${name} is not JSON (${why}). Return plain data: every caller gets it after a round trip through JSON.`,
    { cause },
  );
}

function parseValue<R>(answer: Answer): R {
  const json = Buffer.from(answer.body).toString("utf8");
  return (json === "" ? undefined : JSON.parse(json)) as R;
}
