/** OpenAPI descriptions of what protection adds to a route. They are valid in every version from 3.0 on. */

import type { Limits } from "../../operations/limits.ts";
import type { Policy, ProblemCode } from "../../operations/policies/policy.ts";
import type { Reply } from "../protocol/capture.ts";
import { problemReply } from "../protocol/problem.ts";
import { problemTypes } from "../protocol/problem-types.ts";
import type { RouteContext } from "../protocol/route.ts";

/** An object of an OpenAPI document. */
export type Fields = Readonly<Record<string, unknown>>;

export interface RouteDescription {
  /** Header parameters. */
  readonly parameters: readonly (Fields & { readonly name: string })[];
  /** Response objects of Latchkey's own answers, by status. */
  readonly responses: Readonly<Record<string, Fields>>;
  /** Header objects of answers that can be replayed, by name. */
  readonly replayHeaders: Fields;
  /** The operation's settings, for the extension `x-idempotency`. */
  readonly settings: Fields;
}

/** The name of `problemSchema` among a document's schemas. */
export const problemSchemaName = "IdempotencyProblem";

/** RFC 9457 with Latchkey's members. It avoids `null`, which 3.0 and 3.1 write differently. */
export const problemSchema: Fields = {
  type: "object",
  description: "An answer that the idempotency layer gives instead of the operation (RFC 9457).",
  required: ["type", "title", "status", "detail", "code", "retryable", "safe_new_key"],
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string", description: "For people; programs read `code`." },
    code: { type: "string", enum: Object.keys(problemTypes).filter((code) => code !== "answer-not-stored") },
    retryable: {
      type: "boolean",
      description: "Whether the same request with the same key may be sent again.",
    },
    safe_new_key: {
      type: "boolean",
      description: "Whether a new key is safe. If false, the request could take effect twice.",
    },
    operation_ref: { type: "string", description: "The id of the record." },
    error: {
      type: "object",
      description: "The same in the form of Stripe's API, if the service follows it.",
      properties: { type: { type: "string" }, code: { type: "string" }, message: { type: "string" } },
    },
  },
};

const errorShape = (members: Fields): Fields => ({
  type: "object",
  required: Object.keys(members).filter((name) => name !== "operation_ref"),
  properties: members,
});
const text: Fields = { type: "string" };

/** The schema of a problem in each problem form. */
const problemShapes: Readonly<Record<Policy["problemForm"], Fields>> = {
  rfc9457: { $ref: `#/components/schemas/${problemSchemaName}` },
  acp: errorShape({
    type: { type: "string", enum: ["invalid_request", "processing_error", "service_unavailable"] },
    code: text,
    message: text,
  }),
  ucp: errorShape({
    code: text,
    content: text,
    retryable: { type: "boolean" },
    safe_new_key: { type: "boolean" },
    operation_ref: text,
  }),
};

/** @param limits the latchkey's; without any, no request gets `too-many-keys` */
export function describeRoute(route: RouteContext, limits: Limits): RouteDescription {
  const byStatus = Map.groupBy(problemsOf(route, limits), (code) => String(replyOf(route, code).status));
  const problems = [...byStatus].map(([status, codes]) => [status, problemResponse(route, codes)] as const);
  const responses = Object.fromEntries(problems);
  return {
    parameters: [keyParameter(route), ...ageParameter(route)],
    responses: answersAccepted(route) ? { 202: accepted, ...responses } : responses,
    replayHeaders: replayHeaders(route),
    settings: settingsOf(route),
  };
}

function answersAccepted({ operation, rules }: RouteContext): boolean {
  return operation.execution === "deferred" || rules.inProgress === 202;
}

/** The problems that requests of this route can get. */
function problemsOf(route: RouteContext, limits: Limits): readonly ProblemCode[] {
  const { settings, execution } = route.operation;
  const { requestAge } = route.rules;
  const isLimited = Object.values(limits).some((limit) => limit !== undefined);
  const expires = settings.reuse === "reject" && settings.forgetAfterMs > settings.retentionMs;
  const possible: Readonly<Record<ProblemCode, boolean>> = {
    "missing-key": settings.key === "required",
    "invalid-key": true,
    "invalid-request-date": requestAge !== null,
    "in-progress": !answersAccepted(route),
    "outcome-unknown": true,
    "key-misuse": true,
    "payload-too-large": true,
    "store-unavailable": true,
    // A deferred request only stores its input. If the reply to that is lost, the record shows it, or the store is unavailable.
    "commit-in-doubt": execution !== "deferred",
    timeout: execution === "deferred",
    expired: expires,
    "request-too-old": requestAge !== null,
    "too-many-keys": isLimited,
    // The first is an answer of the operation's own without its body, the second of the status resource.
    "answer-not-stored": false,
    "not-found": false,
  };
  return (Object.keys(possible) as ProblemCode[]).filter((code) => possible[code]);
}

function replyOf({ policy, rules }: RouteContext, code: ProblemCode): Reply {
  return problemReply(code, {}, policy, rules);
}

function problemResponse(route: RouteContext, codes: readonly ProblemCode[]): Fields {
  const replies = codes.map((code) => ({ code, reply: replyOf(route, code) }));
  const byType = Map.groupBy(replies, ({ reply }) => mediaTypeOf(reply));
  const { renderProblem } = route.rules;
  const shape = renderProblem === null ? { schema: problemShapes[route.policy.problemForm] } : {};
  const content = [...byType].map(([mediaType, some]) => {
    const examples = some.map(({ code, reply }) => [code, { value: exampleOf(reply, mediaType) }] as const);
    return [mediaType, { ...shape, examples: Object.fromEntries(examples) }] as const;
  });
  return {
    description: codes.map(describeCode).join("\n"),
    ...(codes.some((code) => waits.has(code)) ? { headers: { "Retry-After": retryAfter } } : {}),
    content: Object.fromEntries(content),
  };
}

/** Problems with a `Retry-After` header. */
const waits: ReadonlySet<ProblemCode> = new Set([
  "in-progress",
  "outcome-unknown",
  "commit-in-doubt",
  "too-many-keys",
  "store-unavailable",
]);

function describeCode(code: ProblemCode): string {
  const { title, retryable, safeNewKey } = problemTypes[code];
  const retry = retryable ? "Send it again with the same key." : "A retry gets the same answer.";
  const newKey = safeNewKey ? "A new key is safe." : "With a new key it could take effect twice.";
  return `- \`${code}\`: ${title}. ${retry} ${newKey}`;
}

function mediaTypeOf({ headers }: Reply): string {
  const type = headers.find(([name]) => name === "Content-Type")?.[1] ?? "";
  return type.split(";", 1)[0] ?? "";
}

function exampleOf({ body }: Reply, mediaType: string): unknown {
  const text = Buffer.from(body).toString("utf8");
  return /[/+]json$/u.test(mediaType) ? JSON.parse(text) : text;
}

const retryAfter: Fields = {
  description: "How long to wait before a retry, in seconds.",
  schema: { type: "integer", minimum: 1 },
};

const accepted: Fields = {
  description: "Accepted but not done yet. Ask for the outcome at the address in `Location`.",
  headers: {
    Location: { description: "The status resource of this request.", schema: { type: "string" } },
    "Retry-After": retryAfter,
  },
  content: {
    "application/json": {
      schema: {
        type: "object",
        required: ["status", "operation_ref"],
        properties: {
          status: { type: "string", enum: ["pending", "running"] },
          operation_ref: { type: "string" },
        },
      },
    },
  },
};

function keyParameter({ operation, rules }: RouteContext): Fields & { readonly name: string } {
  const { settings } = operation;
  const { minLength = 1, maxLength = 255, syntax = "compat", pattern } = rules.key;
  const size = `${minLength} to ${maxLength} characters, ${keyForms[syntax]}`;
  const matching = pattern === undefined ? "" : `, matching \`${pattern.source}\``;
  const sentences = [
    "Makes the request safe to repeat: the same key with the same request gets the first answer, and nothing happens twice.",
    `Send a key that is new for every new request, such as a UUID: ${size}${matching}.`,
    retentionOf(settings),
    `The body may have ${bytesText(rules.bodyLimitBytes)}.`,
    ...(settings.key === "optional" ? ["Without it the request runs unprotected."] : []),
  ];
  return {
    name: rules.header,
    in: "header",
    required: settings.key === "required",
    description: sentences.join(" "),
    // A key in double quotes may have escapes, so length and pattern of the key do not apply to the header's value.
    schema: { type: "string", minLength: 1 },
  };
}

const keyForms = {
  compat: "plain or in double quotes",
  strict: "in double quotes",
  opaque: "used as sent",
} as const;

function retentionOf({ retentionMs, forgetAfterMs, reuse }: RouteContext["operation"]["settings"]): string {
  const kept = `The answer is kept for ${durationText(retentionMs)}`;
  if (reuse === "execute" || forgetAfterMs === retentionMs) return `${kept}; later the same key runs as new.`;
  return `${kept}; until ${durationText(forgetAfterMs)} have passed the key is refused; later it runs as new.`;
}

function ageParameter({ rules }: RouteContext): readonly (Fields & { readonly name: string })[] {
  const { requestAge } = rules;
  if (requestAge === null) return [];
  const { header, maxMs, required } = requestAge;
  const description = `When this request was first sent, as an HTTP date; the same on every retry. Refused if that is more than ${durationText(maxMs)} ago.`;
  return [{ name: header, in: "header", required, description, schema: { type: "string" } }];
}

function replayHeaders({ rules }: RouteContext): Fields {
  const marker = {
    description: "`true` on a replay: the first answer, sent again.",
    schema: { type: "string", enum: ["true"] },
  };
  const status = {
    description: "`answer-not-stored` on a replay whose body was too large to keep.",
    schema: { type: "string", enum: ["answer-not-stored"] },
  };
  const expiry = {
    description: "Until when the answer can be replayed, as an HTTP date.",
    schema: { type: "string" },
  };
  const echo = { description: "The request's key.", schema: { type: "string" } };
  return {
    [rules.replayHeader]: marker,
    "Idempotency-Status": status,
    ...(rules.expiresHeader === false ? {} : { [rules.expiresHeader]: expiry }),
    ...(rules.echoKey ? { [rules.header]: echo } : {}),
  };
}

function settingsOf({ operation, policy, rules }: RouteContext): Fields {
  const { key, keyScope, retentionMs, forgetAfterMs, reuse, answerLimitBytes } = operation.settings;
  return {
    operation: operation.name,
    policy: policy.name,
    execution: operation.execution,
    key,
    keyScope,
    retentionMs,
    forgetAfterMs,
    reuse,
    answerLimitBytes,
    bodyLimitBytes: rules.bodyLimitBytes,
  };
}

const durations = [
  ["days", 86_400_000],
  ["hours", 3_600_000],
  ["minutes", 60_000],
  ["seconds", 1_000],
] as const;

/** Uses at least two of a unit, which avoids a singular: a day is 24 hours. */
function durationText(ms: number): string {
  const [unit, length] = durations.find(([, one]) => ms % one === 0 && ms / one > 1) ?? ["ms", 1];
  return `${ms / length} ${unit}`;
}

const sizes = [
  ["MiB", 1024 * 1024],
  ["KiB", 1024],
] as const;

function bytesText(bytes: number): string {
  const [unit, length] = sizes.find(([, one]) => bytes % one === 0) ?? ["bytes", 1];
  return `${bytes / length} ${unit}`;
}
