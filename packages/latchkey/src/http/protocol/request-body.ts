/** Bodies of requests, as bytes and as values. */
import { createHash } from "node:crypto";
import { errorCodes, LatchkeyError } from "../../errors.ts";
import { encodeFields } from "../../fingerprint/length-prefixed.ts";
import { parseMediaType, parseMultipartType } from "../../fingerprint/media-type.ts";
import { multipartFields } from "../../fingerprint/multipart.ts";
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
  const type = parseMultipartType(mediaType);
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
