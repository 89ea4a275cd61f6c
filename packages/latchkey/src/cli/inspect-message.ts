import { deadMessageChoices } from "../operator/advice.ts";
import type { Readable } from "../operator/readable.ts";
import { type MessageView, messageView, payloadOf, type ShownPayload } from "../operator/views.ts";
import { type CommandChoice, commandChoices, placeWords } from "./choice-commands.ts";
import { type CommandContext, CommandError } from "./command.ts";
import { payloadText } from "./inspect-lines.ts";
import { columns, shortened, shown, shownJson } from "./text.ts";
import type { OpenService, ServiceValues } from "./with-service.ts";

interface InspectMessageValues extends ServiceValues {
  readonly payload?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** @throws {CommandError} with exit code 3 when no dead message has this id. */
export async function inspectMessage(
  context: CommandContext,
  values: InspectMessageValues,
  service: OpenService,
  id: string,
): Promise<void> {
  const report = await reportOf(service, id, values);
  if (values.json) context.print(shownJson(report));
  else for (const line of messageLines(report, service.hasCodec)) context.print(shown(line));
}

type Report = MessageView & {
  readonly payload: Readable<ShownPayload> | null;
  readonly choices: readonly CommandChoice[];
};

async function reportOf(service: OpenService, id: string, values: InspectMessageValues): Promise<Report> {
  const { hasCodec } = service;
  const message = service.runtime.store.messages === null ? null : await service.messages.find(id);
  if (message === null) {
    throw new CommandError(
      `No record, dead effect or dead message has the id ${id}: it was released because nothing happened, was decided or delivered, was forgotten, or its transaction is still running.`,
      { exitCode: 3 },
    );
  }
  return {
    ...messageView(message),
    payload: values.payload ? await payloadOf(message, hasCodec) : null,
    choices: commandChoices(
      deadMessageChoices(message.reason),
      id,
      placeWords(values),
      values.config === undefined ? ["--config <file>"] : [],
    ),
  };
}

export function messageLines(report: Report, hasCodec: boolean): readonly string[] {
  const { starts, returns, failures } = report;
  const lost = starts === returns ? "" : `; ${starts - returns} did not return`;
  const rows: [string, string | null][] = [
    ["Message", report.id],
    ["Tenant", report.tenant],
    ["Operation", report.operation],
    ["Key", report.key],
    ["From", report.source],
    ["Why", report.explanation === null ? report.reason : `${report.reason}: ${report.explanation}`],
    ["Runs", `${starts} counted; ${failures} failed${lost}`],
    ["Last error", report.lastErrorCode],
    ["Died", report.diedAt],
    ["Content type", report.contentType],
    [
      "Payload",
      report.payload === null
        ? `${report.storedBytes} bytes as stored; --payload shows it`
        : shortened(payloadText(report.payload, hasCodec)),
    ],
  ];
  return [
    ...columns(rows.flatMap(([label, text]) => (text === null ? [] : [[label, text] as const]))),
    "",
    "What you may do",
    ...report.choices.flatMap(({ when, command }) => [`  ${when}:`, `    ${command}`]),
  ];
}
