/** Finds everything that is known under one name. */
import { findRecord, isRecordId, type RecordName } from "../execution/find-record.ts";
import type { Runtime } from "../execution/runtime.ts";
import type { DeadMessages } from "../messages/dead-messages.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import { type Choice, deadEffectChoices, deadMessageChoices } from "./advice.ts";
import { findDead, parseDeadName } from "./dead-names.ts";
import type { Readable } from "./readable.ts";
import { type RecordReport, recordReport } from "./report.ts";
import {
  type DeadEffectView,
  deadEffectView,
  type MessageView,
  messageView,
  payloadOf,
  type ShownPayload,
} from "./views.ts";

export type Inspected =
  | { readonly kind: "record"; readonly report: RecordReport }
  /** A dead effect that has outlived its record. */
  | { readonly kind: "effect"; readonly effect: DeadEffectView; readonly choices: readonly Choice[] }
  | {
      readonly kind: "message";
      readonly message: MessageView;
      readonly payload: Readable<ShownPayload>;
      readonly choices: readonly Choice[];
    }
  /** Several records have the name; use an id instead. */
  | { readonly kind: "ambiguous"; readonly recordIds: readonly string[] }
  | { readonly kind: "not_found" };

export async function inspectNamed<Tx>(
  runtime: Runtime<Tx>,
  messages: DeadMessages | null,
  name: string | RecordName,
): Promise<Inspected> {
  const found = await findRecord(runtime, typeof name === "string" ? nameOf(name) : name);
  switch (found.kind) {
    case "record":
      return { kind: "record", report: await recordReport(runtime, found) };
    case "no_such_call":
    case "other_life": {
      const { tenant, scope, key } = found.record;
      const { record, now } = await runtime.store.read({ tenant, scope, key });
      if (record === null) return { kind: "not_found" };
      return {
        kind: "record",
        report: await recordReport(runtime, { key: { tenant, scope, key }, record, now }),
      };
    }
    case "effect":
      return effectAlone(found.effect);
    case "ambiguous":
      return found;
    case "not_found":
      return (typeof name === "string" ? await inspectDead(runtime, messages, name) : null) ?? found;
    default:
      return found satisfies never;
  }
}

/** Finds a dead effect by its id, with or without the number of its death, or a dead message by its id. */
async function inspectDead<Tx>(
  runtime: Runtime<Tx>,
  messages: DeadMessages | null,
  name: string,
): Promise<Inspected | null> {
  const dead = parseDeadName(name);
  if (dead === null) return null;
  const effect = await findDead(runtime.store.outbox, dead.id);
  if (effect === null) return inspectMessage(messages, dead.id);
  const { record, now } = await runtime.store.readById(null, effect.recordId);
  if (record === null) return effectAlone(effect);
  const { tenant, scope, key } = record;
  return {
    kind: "record",
    report: await recordReport(runtime, { key: { tenant, scope, key }, record, now }),
  };
}

function effectAlone(effect: OutboxEffect): Inspected {
  return { kind: "effect", effect: deadEffectView(effect), choices: deadEffectChoices(effect) };
}

async function inspectMessage(messages: DeadMessages | null, id: string): Promise<Inspected | null> {
  const message = (await messages?.find(id)) ?? null;
  if (message === null) return null;
  return {
    kind: "message",
    message: messageView(message),
    payload: await payloadOf(message, true),
    choices: deadMessageChoices(message.reason),
  };
}

function nameOf(text: string): RecordName {
  return isRecordId(text) ? { recordId: text } : { downstreamKey: text };
}
