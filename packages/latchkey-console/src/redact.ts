/** Masks stored inputs, results, answers and payloads. */
import type { Redact, StoredValue } from "latchkey";
import type { Inspected as Found, RecordReport } from "latchkey/operator";

/** Replaces every value. The structure remains, so that people see which fields there are. */
const mask = "••••••••";
/** Names of fields are shown as structure up to this depth and length; deeper levels are masked as one value. */
const depthMax = 8;
const nameLengthMax = 64;

export function redactOf(option: boolean | Redact): Redact {
  if (typeof option === "function") return option;
  return option
    ? (value, { part }) => (part === "summary" ? maskedFields(value) : masked(value))
    : (value) => value;
}

/** Method and path remain: they identify the request. */
function maskedFields(summary: unknown): unknown {
  if (typeof summary !== "object" || summary === null || !("fields" in summary)) return masked(summary);
  return { ...summary, fields: masked(summary.fields) };
}

function masked(value: unknown, depth = 0): unknown {
  if (value === null || value === undefined) return null;
  if (typeof value !== "object" || depth === depthMax) return mask;
  if (Array.isArray(value)) return value.map((item) => masked(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name.length <= nameLengthMax ? name : mask,
      masked(item, depth + 1),
    ]),
  );
}

type Stored = { readonly value: unknown } | { readonly unreadable: number } | null;

/** @throws the function's error: nothing is shown that the function has not processed. */
export function redacted(found: Found, redact: Redact) {
  if (found.kind === "record") {
    return { kind: "record", report: redactedReport(found.report, redact) } as const;
  }
  if (found.kind !== "message") return found;
  const { operation, tenant } = found.message;
  const { payload } = found;
  if (!("value" in payload)) return found;
  // The same bytes in Base64 would reveal what is masked.
  const { body, bodyEncoding } = payload.value;
  const shown = redact(body, { part: "payload", operation, tenant });
  return { ...found, payload: { value: { body: shown, bodyEncoding } } };
}

/** Headers that describe a body without revealing its content. */
const plainHeaders: readonly string[] = ["content-type", "content-length", "content-language"];

function redactedReport(report: RecordReport, redact: Redact): RecordReport {
  const about = (part: StoredValue["part"]): StoredValue => ({
    part,
    operation: report.operation,
    tenant: report.tenant,
  });
  const piece = <T extends Stored>(stored: T, part: StoredValue["part"]): T =>
    stored !== null && "value" in stored ? { ...stored, value: redact(stored.value, about(part)) } : stored;
  const { answer } = report;
  const headers = (all: readonly (readonly [string, string])[]) =>
    all.map(([name, value]) => {
      const isPlain = plainHeaders.includes(name.toLowerCase());
      return [name, isPlain ? value : String(redact(value, about("answer")))] as const;
    });
  return {
    ...report,
    summary: piece(report.summary, "summary"),
    input: piece(report.input, "input"),
    steps: report.steps.map((step) => {
      const result = piece(step.result, "result");
      if (step.call === null) return { ...step, result };
      return { ...step, result, call: { ...step.call, input: piece(step.call.input, "input") } };
    }),
    effects: report.effects.map((effect) => ({
      ...effect,
      input: piece(effect.input, "input"),
      result: piece(effect.result, "result"),
    })),
    answer:
      answer !== null && "value" in answer
        ? {
            value: {
              ...answer.value,
              headers: headers(answer.value.headers),
              body: redact(answer.value.body, about("answer")),
            },
          }
        : answer,
  };
}
