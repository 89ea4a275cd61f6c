import { placeText } from "../operator/pages.ts";
import { letterSource, readPage } from "../operator/queues.ts";
import type { Readable } from "../operator/readable.ts";
import { type MessageView, messageView, payloadOf, type ShownPayload } from "../operator/views.ts";
import { type BulkValues, filterOf } from "./bulk.ts";
import { type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { payloadText } from "./inspect-lines.ts";
import { filterWords, type PageValues, pageOf } from "./pages.ts";
import { shortened, shown, shownJson, table } from "./text.ts";
import { type ServiceValues, withService } from "./with-service.ts";

/** Options of `latchkey list --dead --messages`. */
export interface ListMessagesValues extends ServiceValues, PageValues, BulkValues {
  readonly state?: string | undefined;
  readonly payload?: boolean | undefined;
}

type Listed = MessageView & { readonly payload?: Readable<ShownPayload> };

/** @throws {UsageError} for options that select records or effects. */
export async function listMessages(context: CommandContext, values: ListMessagesValues): Promise<ExitCode> {
  for (const option of ["state", "effect"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --messages exclude each other.`);
  }
  const { limit, after } = pageOf(values);
  const from = after === null ? null : placeText(after);
  const { messages, next, hasCodec } = await withService(context, values, async (service) => {
    const filter = await filterOf(service.runtime.store, values);
    const source = letterSource(service.messages, filter, (message) => message);
    const page = await readPage(source, filter, { limit, from });
    const listed = page.items.map(
      async (message): Promise<Listed> => ({
        ...messageView(message),
        ...(values.payload === true && { payload: await payloadOf(message, service.hasCodec) }),
      }),
    );
    return { messages: await Promise.all(listed), next: page.next, hasCodec: service.hasCodec };
  });
  if (values.json) context.print(shownJson({ messages, next }));
  else for (const line of deadMessageLines(values, limit, messages, next, hasCodec)) context.print(line);
  return 0;
}

export function deadMessageLines(
  values: ListMessagesValues,
  limit: number,
  messages: readonly Listed[],
  next: string | null,
  hasCodec: boolean,
): readonly string[] {
  if (messages.length === 0) {
    return next === null ? ["No message is dead."] : ["None so far.", moreText(values, limit, next)];
  }
  const rows = messages.map((message) => [
    message.diedAt,
    ...[message.tenant ?? "-", message.operation, message.key ?? "-", message.source].map(shown),
    message.id,
    message.reason,
    `${message.starts}/${message.failures}`,
    shown(message.lastErrorCode ?? ""),
    ...(message.payload ? [shown(shortened(payloadText(message.payload, hasCodec)))] : []),
  ]);
  const head = ["DIED", "TENANT", "OPERATION", "KEY", "SOURCE", "ID", "WHY", "STARTS/FAILURES", "LAST ERROR"];
  const more = next === null ? [] : ["", moreText(values, limit, next)];
  return [...table([[...head, ...(values.payload ? ["PAYLOAD"] : [])], ...rows]), ...more];
}

function moreText(values: ListMessagesValues, limit: number, next: string): string {
  const only = [...filterWords(values), ...(values.payload ? ["--payload"] : [])];
  return shown(
    ["More: latchkey list --dead --messages", ...only, `--limit ${limit}`, `--after ${next}`].join(" "),
  );
}
