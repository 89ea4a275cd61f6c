import { placeText } from "../operator/pages.ts";
import { effectSource, readPage } from "../operator/queues.ts";
import type { DeadEffectView } from "../operator/views.ts";
import { type BulkValues, filterOf } from "./bulk.ts";
import { type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { outboxOf } from "./outbox-of.ts";
import { filterWords, type PageValues, pageOf } from "./pages.ts";
import { shown, shownJson, table } from "./text.ts";
import { withService } from "./with-service.ts";
import type { DatabaseValues } from "./with-store.ts";

/** Options of `latchkey list --dead`. */
export interface ListDeadValues extends DatabaseValues, PageValues, BulkValues {
  readonly state?: string | undefined;
}

/** @throws {UsageError} for `--state`, which only records have. */
export async function listDead(context: CommandContext, values: ListDeadValues): Promise<ExitCode> {
  if (values.state !== undefined) throw new UsageError("--state and --dead exclude each other.");
  const { limit, after } = pageOf(values);
  const { tenant } = values;
  const [{ items: effects, next }, others] = await withService(
    context,
    values,
    async ({ runtime: { store }, messages }) => {
      outboxOf(store);
      const filter = await filterOf(store, values);
      const from = after === null ? null : placeText(after);
      const page = await readPage(effectSource(store, filter), filter, { limit, from });
      return [page, await messages.list({ limit: 1, ...(tenant !== undefined && { tenant }) })] as const;
    },
  );
  if (values.json) {
    context.print(shownJson({ effects, next }));
    return 0;
  }
  for (const line of deadLines(values, limit, effects, next)) context.print(line);
  if (others.length > 0) context.complain("There are dead messages, too: latchkey list --dead --messages");
  return 0;
}

export function deadLines(
  values: ListDeadValues,
  limit: number,
  effects: readonly DeadEffectView[],
  next: string | null,
): readonly string[] {
  if (effects.length === 0) {
    return next === null ? ["No effect is dead."] : ["None so far.", moreText(values, limit, next)];
  }
  const rows = effects.map((effect) => [
    effect.createdAt,
    ...[effect.tenant, effect.operation, effect.key, effect.effect].map(shown),
    effect.death,
    effect.recordId,
    shown(effect.lastErrorCode ?? ""),
  ]);
  const head = ["CREATED", "TENANT", "OPERATION", "KEY", "EFFECT", "ID", "RECORD", "WHY"];
  return [...table([head, ...rows]), ...(next === null ? [] : ["", moreText(values, limit, next)])];
}

function moreText(values: ListDeadValues, limit: number, next: string): string {
  const words = ["More: latchkey list --dead", ...filterWords(values), `--limit ${limit}`, `--after ${next}`];
  return shown(words.join(" "));
}
