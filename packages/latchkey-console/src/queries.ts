/** Reads the parameters of a request from its address and its body. */
import type { Outcome, QueueFilter } from "latchkey/operator";
import { badRequest } from "./replies.ts";
import type { BulkAction, QueueQuery } from "./wire.ts";

export type Fields = Readonly<Record<string, unknown>>;

const bodyLimitBytes = 256 * 1_024;

/** @throws {Refusal} for a body that is too large or is not a JSON object. */
export async function fieldsOf(request: Request): Promise<Fields> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > bodyLimitBytes) throw badRequest(`The body is larger than ${bodyLimitBytes} bytes.`);
    chunks.push(chunk);
  }
  try {
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  } catch {
    // Falls through: neither is an object.
  }
  throw badRequest("The body must be a JSON object.");
}

export function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === "string" && value.trim() !== "") return value.trim();
  throw badRequest(`${name} must be a non-empty string.`);
}

export function oneOf<T extends string>(value: unknown, allowed: readonly T[], name: string): T {
  const found = allowed.find((one) => one === value);
  if (found === undefined) throw badRequest(`${name} must be one of ${allowed.join(", ")}.`);
  return found;
}

const filterNames = ["tenant", "operation", "effect", "errorCode"] as const;

export function filterOf(fields: Fields): QueueFilter {
  const texts = filterNames.flatMap((name) => {
    const value = fields[name];
    return typeof value === "string" && value !== "" ? [[name, value] as const] : [];
  });
  const times = (["notAfter", "after"] as const).flatMap((name) => {
    const value = fields[name];
    if (typeof value !== "string" || value === "") return [];
    const time = Date.parse(value);
    if (Number.isNaN(time)) throw badRequest(`${name} must be a time in ISO 8601.`);
    return [[name, time] as const];
  });
  return Object.fromEntries([...texts, ...times]);
}

export function pageOf(query: URLSearchParams): { readonly limit: number; readonly from: string | null } {
  const limit = Number(query.get("limit") ?? 50);
  if (!Number.isInteger(limit) || limit < 1 || limit > 200) throw badRequest("limit must be from 1 to 200.");
  return { limit, from: query.get("from") };
}

export function queueOf(fields: Fields): QueueQuery["queue"] {
  return oneOf(fields.queue, ["unknown", "retryable", "effect", "message"], "queue");
}

/** @throws {Refusal} */
export function outcomeOf(fields: Fields): Outcome {
  const outcome = oneOf(fields.outcome, ["call", "not-executed", "completed", "failed"], "outcome");
  switch (outcome) {
    case "call":
      return {
        outcome,
        call: textOf(fields, "call"),
        downstreamKey: textOf(fields, "downstreamKey"),
        result: fields.result,
      };
    case "not-executed": {
      const proof = oneOf(
        fields.proof,
        ["operator", "closed-downstream", "downstream-deduplicates"],
        "proof",
      );
      const { downstreamKey } = fields;
      if (downstreamKey !== null && typeof downstreamKey !== "string") {
        throw badRequest("downstreamKey must be a string or null.");
      }
      return { outcome, proof, downstreamKey };
    }
    case "completed":
    case "failed": {
      const { answer } = fields;
      if (typeof answer !== "object" || answer === null || Array.isArray(answer)) {
        throw badRequest('answer must be an object, such as {"status":201,"body":{}}.');
      }
      return { outcome, answer };
    }
    default:
      return outcome satisfies never;
  }
}

export function bulkActionOf(fields: Fields): BulkAction {
  const kind = oneOf(fields.kind, ["settle", "retry", "redrive", "discard"], "kind");
  if (kind === "discard" || kind === "retry") return { kind };
  if (kind === "redrive") return { kind, doubt: oneOf(fields.doubt, ["kept", "cleared"], "doubt") };
  const outcome = oneOf(fields.outcome, ["not-executed", "failed"], "outcome");
  if (outcome === "not-executed") {
    return { kind, outcome, proof: oneOf(fields.proof, ["operator", "closed-downstream"], "proof") };
  }
  const { status } = fields;
  if (typeof status !== "number" || !Number.isInteger(status) || status < 400 || status > 599) {
    throw badRequest("status must be from 400 to 599.");
  }
  return { kind, outcome, status };
}
