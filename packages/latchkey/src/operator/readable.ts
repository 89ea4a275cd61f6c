/**
 * Shows stored bytes if they are readable. They have passed the service's codec, which a command does not have; bytes that
 * are unreadable without it are reported as such, never guessed.
 */
import { decodeAnswer } from "../operations/answer.ts";
import type { Journal } from "../stores/journal.ts";

/** `unreadable`: the number of bytes. */
export type Readable<T> = { readonly value: T } | { readonly unreadable: number };

export interface ShownBody {
  /** JSON as a value, other text as a string, other bytes in base64, an empty body as null. */
  readonly body: unknown;
  readonly bodyEncoding: "json" | "text" | "base64" | "none";
}

export interface ShownAnswer extends ShownBody {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly omitted: string | null;
}

export function readJson(bytes: Uint8Array): Readable<unknown> {
  try {
    return { value: bytes.byteLength === 0 ? null : JSON.parse(utf8(bytes)) };
  } catch {
    return { unreadable: bytes.byteLength };
  }
}

export function readAnswer(bytes: Uint8Array): Readable<ShownAnswer> {
  try {
    const { status, headers, body, omitted } = decodeAnswer(bytes);
    return { value: { status, headers, ...shownBody(body), omitted } };
  } catch {
    return { unreadable: bytes.byteLength };
  }
}

/** Whether anything stored with this life was written through a codec that a command does not have. */
export function hasUnreadable(journal: Journal | null): boolean {
  const stored = [journal?.input ?? null];
  for (const step of journal?.steps ?? []) {
    stored.push(step.result, step.kind === "call" ? step.input : null);
  }
  return stored.some((bytes) => bytes !== null && "unreadable" in readJson(bytes));
}

export function shownBody(body: Uint8Array): ShownBody {
  if (body.byteLength === 0) return { body: null, bodyEncoding: "none" };
  try {
    const text = utf8(body);
    const json = readJson(body);
    return "value" in json
      ? { body: json.value, bodyEncoding: "json" }
      : { body: text, bodyEncoding: "text" };
  } catch {
    return { body: Buffer.from(body).toString("base64"), bodyEncoding: "base64" };
  }
}

function utf8(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}
