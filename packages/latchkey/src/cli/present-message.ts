/** Dead messages as the commands show them. */
import type { DeadMessage } from "../messages/dead-messages.ts";
import { messageReasonOf } from "./message-reasons.ts";
import { type Readable, readJson, type ShownBody, shownBody } from "./readable.ts";
import { isoTime } from "./text.ts";

export type MessageView = ReturnType<typeof messageView>;

export type ShownPayload = ShownBody & { readonly base64: string };

/** What is known of it, without its payload. */
export function messageView(message: DeadMessage) {
  const { id, operation, tenant, key, source, reason, contentType } = message;
  const { starts, returns, failures, lastErrorCode, diedAt, storedBytes } = message;
  return {
    id,
    operation,
    tenant,
    key,
    source,
    reason,
    explanation: messageReasonOf(reason),
    contentType,
    starts,
    returns,
    failures,
    lastErrorCode,
    diedAt: isoTime(diedAt),
    storedBytes,
  };
}

/** @param hasCodec false: what is not JSON may have passed a codec, and is called unreadable. */
export async function payloadOf(message: DeadMessage, hasCodec: boolean): Promise<Readable<ShownPayload>> {
  const unreadable = { unreadable: message.storedBytes };
  try {
    const body = await message.body();
    if (!hasCodec && "unreadable" in readJson(body)) return unreadable;
    return { value: { ...shownBody(body), base64: Buffer.from(body).toString("base64") } };
  } catch {
    return unreadable;
  }
}

export function payloadText(payload: Readable<ShownPayload>, hasCodec: boolean): string {
  if ("value" in payload) {
    const { body, bodyEncoding } = payload.value;
    return bodyEncoding === "json" ? JSON.stringify(body) : `(${bodyEncoding}) ${body ?? ""}`.trimEnd();
  }
  return hasCodec
    ? `${payload.unreadable} bytes, which the service's codec refuses`
    : `${payload.unreadable} bytes, not readable here: encoded, or no JSON; --config <file> decodes it`;
}
