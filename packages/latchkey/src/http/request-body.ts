/** Bodies of requests, as bytes and as values. */
import { errorCodes, LatchkeyError } from "../errors.ts";
import { parseMediaType } from "../fingerprint/media-type.ts";
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

/**
 * The value that stands for a body under the fingerprint option `parsed`. Bytes are preferred where they are there,
 * because middleware may have changed the value.
 *
 * @throws {LatchkeyError} `body-consumed`.
 */
export function parsedForm(body: BodyReading, mediaType: string | null): unknown {
  if (body.kind === "parsed") return body.value ?? null;
  const bytes = rawForm(body);
  try {
    const value = parseJsonBody(bytes, mediaType);
    return value === undefined ? Buffer.from(bytes).toString("latin1") : value;
  } catch {
    return Buffer.from(bytes).toString("latin1");
  }
}
