/** Bodies of requests, as bytes and as values. */
import { createHash } from "node:crypto";
import { errorCodes, LatchkeyError } from "../../errors.ts";
import { encodeFields } from "../../fingerprint/length-prefixed.ts";
import { parseMediaType } from "../../fingerprint/media-type.ts";
import { multipartFields } from "../../fingerprint/multipart.ts";
import { NotFingerprintableError } from "../../fingerprint/parsed-value.ts";
import type { BodyReading } from "./incoming.ts";

/**
 * JSON text, parsed; undefined for a body that is empty or says that it is something else.
 *
 * @throws {SyntaxError | TypeError} when it is not JSON in UTF-8.
 */
export function parseJsonBody(bytes: Uint8Array, mediaType: string | null): unknown {
  if (bytes.byteLength === 0 || mediaType === null || !parseMediaType(mediaType).isJson) return undefined;
  return JSON.parse(utf8.decode(bytes));
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The bytes that a fingerprint sees.
 *
 * @throws {LatchkeyError} `body-consumed`.
 */
export function rawForm(body: BodyReading): Uint8Array {
  if (body.kind === "bytes") return body.bytes;
  const { summary, remedy } = errorCodes["body-consumed"];
  const fix = body.kind === "too-large" ? remedy : body.remedy;
  throw new LatchkeyError("body-consumed", { message: `${summary} ${fix}` });
}

/** A multipart body without its boundary, as digests. Null: it is none, or cannot be taken apart. */
function partsOf(bytes: Uint8Array, mediaType: string): unknown {
  const type = parseMediaType(mediaType).multipart;
  const parts = type === null ? null : multipartFields(bytes, type.boundary);
  if (parts === null) return null;
  const digest = createHash("sha256");
  for (const chunk of encodeFields(parts)) digest.update(chunk);
  return { multipart: digest.digest("hex") };
}

/**
 * The value that stands for a body under the fingerprint option `parsed`. Bytes are preferred where they are there,
 * because middleware may have changed the value.
 *
 * @throws {LatchkeyError} `body-consumed`.
 */
export function parsedForm(body: BodyReading, mediaType: string | null): unknown {
  if (body.kind === "parsed") return body.value ?? null;
  const bytes = rawForm(body);
  const parts = mediaType === null ? null : partsOf(bytes, mediaType);
  if (parts !== null) return parts;
  try {
    const value = parseJsonBody(bytes, mediaType);
    return value === undefined ? Buffer.from(bytes).toString("latin1") : value;
  } catch {
    return Buffer.from(bytes).toString("latin1");
  }
}

/**
 * What other code has made of a body that it has read; `consumed` where it has left what stands for no body at all, of whatever
 * body that was.
 *
 * @param mediaType the request's
 */
export function parsedReading(value: unknown, mediaType: string | undefined, remedy: string): BodyReading {
  const isMade = value !== undefined && !(isPlaceholder(value) && !canMean(value, mediaType ?? ""));
  return isMade ? { kind: "parsed", value, remedy } : { kind: "consumed", remedy };
}

/** What parsers leave that have not read a body: of another media type than theirs, for instance. */
export function isPlaceholder(body: unknown): boolean {
  if (body === null || body === "") return true;
  if (typeof body !== "object") return false;
  const prototype: unknown = Object.getPrototypeOf(body);
  return (prototype === Object.prototype || prototype === null) && Reflect.ownKeys(body).length === 0;
}

/** Whether a body of this type can say just that. */
function canMean(placeholder: unknown, mediaType: string): boolean {
  const essence = parseMediaType(mediaType).essence ?? "";
  if (/[/+]json$/u.test(essence)) return true;
  return essence === (placeholder === "" ? "text/plain" : "application/x-www-form-urlencoded");
}

/**
 * The error for a value that a parser has made and that another one could not be told from.
 *
 * @throws whatever else it is given
 */
export function refuseValue(error: unknown): never {
  if (!(error instanceof NotFingerprintableError)) throw error;
  const message =
    `The value that a parser has made of the request's body cannot be compared: ${error.message}. ` +
    "Keep the body's bytes beside it, or let the parser run inside the protected handler.";
  throw new LatchkeyError("body-consumed", { message, cause: error });
}
