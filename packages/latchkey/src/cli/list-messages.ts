import type { DeadMessageFilter } from "../messages/dead-messages.ts";
import { nextPlace } from "../operator/pages.ts";
import type { Readable } from "../operator/readable.ts";
import { type MessageView, messageView, payloadOf, type ShownPayload } from "../operator/views.ts";
import { type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { payloadText } from "./inspect-lines.ts";
import { type PageValues, pageOf } from "./pages.ts";
import { shellWord, shortened, shown, shownJson, table } from "./text.ts";
import { type ServiceValues, withService } from "./with-service.ts";

/** Options of `latchkey list --dead --messages`. */
export interface ListMessagesValues extends ServiceValues, PageValues {
  readonly state?: string | undefined;
  readonly operation?: string | undefined;
  readonly effect?: string | undefined;
  readonly tenant?: string | undefined;
  readonly payload?: boolean | undefined;
  readonly json?: boolean | undefined;
}

type Listed = MessageView & { readonly payload?: Readable<ShownPayload> };

/** @throws {UsageError} for options that select records or effects. */
export async function listMessages(context: CommandContext, values: ListMessagesValues): Promise<ExitCode> {
  for (const option of ["state", "effect"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --messages exclude each other.`);
  }
  const { limit, after: place } = pageOf(values);
  const after = place && { diedAt: place.createdAt, id: place.id };
  const { operation, tenant } = values;
  const filter: DeadMessageFilter = {
    limit,
    ...(operation !== undefined && { operation }),
    ...(tenant !== undefined && { tenant }),
    ...(after !== null && { after }),
  };
  const { messages, next, hasCodec } = await withService(context, values, async (service) => {
    const found = await service.messages.list(filter);
    const listed = found.map(
      async (message): Promise<Listed> => ({
        ...messageView(message),
        ...(values.payload === true && { payload: await payloadOf(message, service.hasCodec) }),
      }),
    );
    const places = found.map(({ diedAt, id }) => ({ createdAt: diedAt, id }));
    return {
      messages: await Promise.all(listed),
      next: nextPlace(places, limit),
      hasCodec: service.hasCodec,
    };
  });
  if (values.json) context.print(shownJson({ messages, next }));
  else for (const line of linesOf(values, limit, messages, next, hasCodec)) context.print(line);
  return 0;
}

function linesOf(
  values: ListMessagesValues,
  limit: number,
  messages: readonly Listed[],
  next: string | null,
  hasCodec: boolean,
): readonly string[] {
  if (messages.length === 0) return ["No message is dead."];
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

function moreText(
  { operation, tenant, payload, config }: ListMessagesValues,
  limit: number,
  next: string,
): string {
  const only = [
    ...(operation === undefined ? [] : [`--operation ${shellWord(operation)}`]),
    ...(tenant === undefined ? [] : [`--tenant ${shellWord(tenant)}`]),
    ...(payload ? ["--payload"] : []),
    ...(config === undefined ? [] : [`--config ${shellWord(config)}`]),
  ];
  return shown(
    ["More: latchkey list --dead --messages", ...only, `--limit ${limit}`, `--after ${next}`].join(" "),
  );
}
