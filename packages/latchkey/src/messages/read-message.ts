/** Reads a message into a submission, or finds out why it cannot be one. */
import { createHash } from "node:crypto";
import type { Runtime } from "../execution/runtime.ts";
import { scopeOf } from "../execution/scope.ts";
import { FINGERPRINT_VERSION, fingerprint } from "../fingerprint/fingerprint.ts";
import { encodeFields } from "../fingerprint/length-prefixed.ts";
import { isPlaceholderKey, MAX_KEY_LENGTH } from "../key/parse-key.ts";
import type { Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { summaryOf } from "../operations/summary.ts";
import { nonEmptyText } from "../plain-text.ts";
import type { MessageFacts } from "../stores/messages.ts";
import { isStorable } from "../stores/storable.ts";
import type { Message, MessageDeath } from "./broker.ts";
import type { InboxSettings } from "./inbox-options.ts";

export type ReadMessage<I> =
  | {
      readonly kind: "readable";
      readonly facts: MessageFacts;
      readonly submission: Submission;
      readonly input: I;
    }
  | {
      readonly kind: "unreadable";
      readonly facts: MessageFacts;
      readonly because: MessageDeath;
      readonly error: unknown;
    };

export function readMessage<I>(
  settings: InboxSettings<I>,
  operation: Operation,
  { storedKey, checkIdentity }: Pick<Runtime<never>, "storedKey" | "checkIdentity">,
  message: Message,
): ReadMessage<I> {
  let tenant: string | null = null;
  let key: string | null = null;
  const unreadable = (because: MessageDeath, error: unknown = null): ReadMessage<I> => ({
    kind: "unreadable",
    facts: factsOf(operation, message, { tenant, key: null }),
    because,
    error,
  });
  try {
    const given = nonEmptyText(settings.tenant(message));
    // A refused value is not stored.
    if (given !== null) checkIdentity("tenant", given);
    tenant = given;
  } catch (error) {
    return unreadable("tenant-missing", error);
  }
  if (tenant === null || !isStorable(tenant)) {
    tenant = null;
    return unreadable("tenant-missing");
  }
  try {
    key = nonEmptyText(settings.key(message));
  } catch (error) {
    return unreadable("invalid-id", error);
  }
  if (key === null) return unreadable("missing-id");
  if (key.length > MAX_KEY_LENGTH || !isStorable(key)) return unreadable("invalid-id");
  if (isPlaceholderKey(key)) return unreadable("invalid-id");
  const sent = { tenant, scope: scopeOf(operation), key };
  const facts = factsOf(operation, message, storedKey(sent));
  try {
    const input = settings.decode(message);
    const submission = {
      key: sent,
      fingerprint: fingerprintOf(operation, message),
      principal: null,
      ...summaryOf(operation, () => ({ method: null, path: null, value: () => input })),
    };
    return { kind: "readable", facts, submission, input };
  } catch (error) {
    return { kind: "unreadable", facts, because: "undecodable", error };
  }
}

/** The fingerprint of a JSON body in its canonical form, so that a sender may serialise it again; of any other body as its bytes. */
function fingerprintOf({ name }: Operation, { contentType, body }: Message): Submission["fingerprint"] {
  const request = {
    operation: name,
    method: "MESSAGE",
    path: "",
    query: "",
    mediaType: contentType ?? "application/json",
    headers: [],
    body,
  };
  // A message that is delivered again has the same bytes, boundaries included.
  return fingerprint(request, { version: FINGERPRINT_VERSION });
}

function factsOf(
  { name }: Operation,
  { source, body }: Message,
  { tenant, key }: { readonly tenant: string | null; readonly key: string | null },
): MessageFacts {
  let digest: string | null = null;
  return {
    source,
    operation: name,
    tenant,
    key,
    /** Computed on first use, because a message that succeeds at its first delivery needs none. */
    get digest() {
      digest ??= digestOf(["latchkey message", name, tenant, key, body]);
      return digest;
    },
  };
}

function digestOf(fields: readonly (string | Uint8Array | null)[]): string {
  const digest = createHash("sha256");
  for (const chunk of encodeFields(fields)) digest.update(chunk);
  return digest.digest("hex");
}
