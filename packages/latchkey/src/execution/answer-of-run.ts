/** Turns the return value of `run` into an answer, and an answer into the value for callers without HTTP. */
import type { Answer } from "../operations/answer.ts";
import type { RunAnswer } from "../operations/owned-work.ts";
import { decodeJson, encodeJson } from "./stored-values.ts";

const json = "application/json";

/** @throws {TypeError} for an invalid status or header, or a body that has no JSON form. */
export function answerOfRun(given: RunAnswer): Answer {
  if (typeof given !== "object" || given === null)
    throw new TypeError("run must return an answer: { status, body }");
  const { status = 200, headers = {}, body } = given;
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new TypeError(`An answer's status must be between 200 and 599 (got ${String(status)})`);
  }
  const entries = Object.entries(headers).flatMap(([name, value]) =>
    (typeof value === "string" ? [value] : [...value]).map((line) => headerOf(name, line)),
  );
  const typed = entries.some(([name]) => name.toLowerCase() === "content-type");
  if (body instanceof Uint8Array) {
    if (!typed) throw new TypeError("An answer whose body is bytes needs a content-type");
    return { status, headers: entries, body: new Uint8Array(body), omitted: null };
  }
  const bytes = encodeJson("The answer's body", body);
  const added = typed || body === undefined ? [] : [["Content-Type", json] as const];
  return { status, headers: [...entries, ...added], body: bytes, omitted: null };
}

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Latin-1 text that cannot break out of its line. */
const lineText = /^[\t\x20-\x7e\x80-\xff]*$/;
const framing: ReadonlySet<string> = new Set([
  "content-length",
  "transfer-encoding",
  "trailer",
  "connection",
]);

function headerOf(name: string, value: string): readonly [string, string] {
  if (!token.test(name) || !lineText.test(String(value))) {
    throw new TypeError(`An answer's header ${JSON.stringify(name)} is not a valid header`);
  }
  if (framing.has(name.toLowerCase()))
    throw new TypeError(`An answer must not set the framing header ${name}`);
  return [name, String(value)];
}

/** The body as JSON, or as bytes if its content type is another; undefined if there is none. */
export function valueOfAnswer({ headers, body }: Answer): unknown {
  const type = headers.find(([name]) => name.toLowerCase() === "content-type")?.[1] ?? json;
  const essence = (type.split(";")[0] ?? "").trim().toLowerCase();
  if (body.byteLength === 0) return undefined;
  return essence === json || essence.endsWith("+json") ? decodeJson(body) : new Uint8Array(body);
}

interface Failure {
  /** Default: 502, Bad Gateway. */
  readonly status?: number;
  readonly title?: string;
  /** Whether a repetition under another key is safe: no earlier step of the life has happened. */
  readonly safeNewKey: boolean;
}

/** The answer to a final failure for which the code has given none. */
export function failureAnswer(code: string, detail: string, how: Failure): Answer {
  const { status = 502, title = "Bad Gateway", safeNewKey } = how;
  const problem = {
    type: `urn:latchkey:problem:${code}`,
    title,
    status,
    detail,
    code,
    retryable: false,
    safe_new_key: safeNewKey,
  };
  return {
    status,
    headers: [["Content-Type", "application/problem+json"]],
    body: encodeJson("A problem", problem),
    omitted: null,
  };
}
