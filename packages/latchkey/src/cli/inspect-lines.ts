/** Steps, effects and stored parts as lines for an operator. */
import type { Readable, ShownAnswer } from "../operator/readable.ts";
import type {
  DeadEffectView,
  EffectPiecesView,
  FactsView,
  ShownPayload,
  StepView,
} from "../operator/views.ts";
import { firstFactsMax } from "../stores/facts.ts";
import type { CommandChoice } from "./choice-commands.ts";
import { columns, shortened } from "./text.ts";

export function stepLines(step: StepView): readonly string[] {
  const at = step.finishedAt === null ? "" : ` ${step.finishedAt}`;
  const head = `${step.position + 1}. ${step.name} (${step.kind}) ${step.state.replace("_", " ")}${at}`;
  return under(head, [...callRows(step), ["result", readableText(step.result)], ["version", step.version]]);
}

function callRows({ call, state }: StepView): [string, string | null][] {
  if (call === null) return [];
  const times = call.sends === 1 ? "once" : `${call.sends} times`;
  const outcome = state === "started" ? "; how it ended is not known" : "";
  return [
    ["effect", call.effect],
    ["downstream key", call.downstreamKey],
    ["sent", `${times}, first ${call.startedAt}${outcome}`],
    ["generation", call.generation === 0 ? null : String(call.generation)],
    ["input", readableText(call.input)],
  ];
}

export function factLines(kept: FactsView | null): readonly string[] {
  if (kept === null) return [];
  const lines = kept.facts.map(({ at, text, traceId }) =>
    traceId === null ? `${at} ${text}` : `${at} ${text}, trace ${traceId}`,
  );
  if (kept.missing > 0) lines.splice(firstFactsMax, 0, `(${kept.missing} more, not stored individually)`);
  return lines;
}

export function effectLines(effect: EffectPiecesView): readonly string[] {
  const { state, sends, returns, doubtfulSince, finishedAt, lastErrorCode, reason } = effect;
  const from = effect.step === "" ? "" : ` (${effect.step})`;
  const at = finishedAt === null ? "" : ` ${finishedAt}`;
  const times = sends === 1 ? "once" : `${sends} times`;
  const lost = sends === returns ? "" : `; ${sends - returns} did not return`;
  const doubt = doubtfulSince === null ? "" : `; in doubt since ${doubtfulSince}`;
  return under(`${effect.index + 1}. ${effect.effect}${from} ${state}${at}`, [
    ["id", effect.id],
    ["why", lastErrorCode === null || reason === null ? lastErrorCode : `${lastErrorCode}: ${reason}`],
    ["downstream key", effect.downstreamKey],
    ["sent", sends === 0 ? "not yet" : `${times}${lost}${doubt}`],
    ["generation", effect.generation === 0 ? null : String(effect.generation)],
    [
      "aggregate",
      effect.aggregate === null || !effect.ordered ? effect.aggregate : `${effect.aggregate} (ordered)`,
    ],
    ["input", readableText(effect.input)],
    ["result", readableText(effect.result)],
  ]);
}

/** For a dead effect whose record is gone. */
export function deadEffectLines(
  effect: DeadEffectView,
  choices: readonly CommandChoice[],
): readonly string[] {
  const { tenant, operation, key, recordId, death, lastErrorCode, reason, sends, returns } = effect;
  const rows = [
    ["Effect", effect.effect],
    ["Dead as", death],
    [
      "Why",
      lastErrorCode === null || reason === null ? (lastErrorCode ?? "") : `${lastErrorCode}: ${reason}`,
    ],
    ["Tenant", tenant],
    ["Operation", operation],
    ["Key", key],
    ["Record", `${recordId}, which is gone`],
    ["Downstream key", effect.downstreamKey],
    ["Sent", `${sends} counted, ${returns} returned`],
    ["Created", effect.createdAt],
  ] as const;
  const advice = choices.flatMap(({ when, command }) => [`  ${when}:`, `    ${command}`]);
  return [...columns(rows), "", "What you may do", ...advice];
}

function under(head: string, details: readonly (readonly [label: string, text: string | null])[]) {
  const known = details.flatMap(([label, text]) => (text === null ? [] : [[label, text] as const]));
  return [head, ...columns(known).map((line) => `   ${line}`)];
}

export function readableText(readable: Readable<unknown> | null): string | null {
  if (readable === null) return null;
  return "value" in readable
    ? shortened(JSON.stringify(readable.value))
    : unreadableText(readable.unreadable);
}

/** `POST /payments {"amount":500}`; any other shape, such as after a redaction, is printed as JSON. */
export function summaryText(summary: Readable<unknown> | null): string | null {
  if (summary === null || !("value" in summary)) return readableText(summary);
  const { value } = summary;
  if (typeof value !== "object" || value === null || !("fields" in value)) return readableText(summary);
  const [method, path] = ["method", "path"].map((name) => Reflect.get(value, name));
  const fields = JSON.stringify(value.fields);
  const texts = [method, path, fields === "{}" ? null : fields].filter((one) => typeof one === "string");
  return texts.length === 0 ? null : shortened(texts.join(" "));
}

export function answerText(answer: Readable<ShownAnswer> | null): string | null {
  if (answer === null) return null;
  if (!("value" in answer)) return unreadableText(answer.unreadable);
  const { status, body, bodyEncoding, omitted } = answer.value;
  if (omitted !== null) return `${status}, body not stored (${omitted})`;
  return bodyEncoding === "none"
    ? String(status)
    : `${status} ${shortened(bodyEncoding === "json" ? JSON.stringify(body) : String(body))}`;
}

function unreadableText(bytes: number): string {
  return `${bytes} bytes, not readable here (the service stores through a codec)`;
}

/** @param hasCodec whether the service's codec was available to decode it */
export function payloadText(payload: Readable<ShownPayload>, hasCodec: boolean): string {
  if ("value" in payload) {
    const { body, bodyEncoding } = payload.value;
    return bodyEncoding === "json" ? JSON.stringify(body) : `(${bodyEncoding}) ${body ?? ""}`.trimEnd();
  }
  return hasCodec
    ? `${payload.unreadable} bytes, which the service's codec rejects`
    : `${payload.unreadable} bytes, not readable here: encoded, or not JSON; --config <file> decodes it`;
}
