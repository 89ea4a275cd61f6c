/** Bodies of requests, as bytes and as values. */
import { createHash } from "node:crypto";
import { errorCodes, LatchkeyError } from "../../errors.ts";
import { encodeFields } from "../../fingerprint/length-prefixed.ts";
import { parseMediaType } from "../../fingerprint/media-type.ts";
import { multipartFields } from "../../fingerprint/multipart.ts";
import { NotFingerprintableError } from "../../fingerprint/parsed-value.ts";
import type { BodyReading } from "./incoming.ts";

/**
 * Parses a JSON body; undefined for an empty body or one of another media type.
 *
 * @throws {SyntaxError | TypeError} when the body is not JSON in UTF-8.
 */
export function parseJsonBody(bytes: Uint8Array, mediaType: string | null): unknown {
  if (bytes.byteLength === 0 || mediaType === null || !parseMediaType(mediaType).isJson) return undefined;
  return JSON.parse(utf8.decode(bytes));
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The bytes for the fingerprint.
 *
 * @throws {LatchkeyError} `body-consumed`.
 */
export function rawForm(body: BodyReading): Uint8Array {
  if (body.kind === "bytes") return body.bytes;
  const { summary, remedy } = errorCodes["body-consumed"];
  const fix = body.kind === "too-large" ? remedy : body.remedy;
  throw new LatchkeyError("body-consumed", { message: `${summary} ${fix}` });
}

/** A digest of a multipart body without its boundary. Null: the body is not multipart or cannot be parsed. */
function partsOf(bytes: Uint8Array, mediaType: string): unknown {
  const type = parseMediaType(mediaType).multipart;
  const parts = type === null ? null : multipartFields(bytes, type.boundary);
  if (parts === null) return null;
  const digest = createHash("sha256");
  for (const chunk of encodeFields(parts)) digest.update(chunk);
  return { multipart: digest.digest("hex") };
}

/**
 * The value for the fingerprint under the option `parsed`. Made from the bytes if they were kept, because middleware may
 * have changed the parsed value.
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
 * The value that other code has made of the body; `consumed` if it has left only a placeholder, which may stand for any body.
 *
 * @param mediaType the request's media type
 */
export function parsedReading(value: unknown, mediaType: string | undefined, remedy: string): BodyReading {
  const isMade = value !== undefined && !(isPlaceholder(value) && !canMean(value, mediaType ?? ""));
  return isMade ? { kind: "parsed", value, remedy } : { kind: "consumed", remedy };
}

/** Whether this is what a parser leaves that has not read the body, for instance because of its media type. */
export function isPlaceholder(body: unknown): boolean {
  if (body === null || body === "") return true;
  if (typeof body !== "object") return false;
  const prototype: unknown = Object.getPrototypeOf(body);
  return (prototype === Object.prototype || prototype === null) && Reflect.ownKeys(body).length === 0;
}

/** Whether a body of this type can really have the placeholder's value. */
function canMean(placeholder: unknown, mediaType: string): boolean {
  const essence = parseMediaType(mediaType).essence ?? "";
  if (/[/+]json$/u.test(essence)) return true;
  return essence === (placeholder === "" ? "text/plain" : "application/x-www-form-urlencoded");
}

/**
 * Turns the error for a parsed value that cannot be compared into `body-consumed`.
 *
 * @throws {LatchkeyError} `body-consumed`; any other error unchanged
 */
export function refuseValue(error: unknown): never {
  if (!(error instanceof NotFingerprintableError)) throw error;
  const message =
    `The value that a parser made of the request's body cannot be compared: ${error.message}. ` +
    "Keep the body's bytes as well, or run the parser inside the protected handler.";
  throw new LatchkeyError("body-consumed", { message, cause: error });
}
