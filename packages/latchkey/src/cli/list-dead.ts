import { nextPlace } from "../operator/pages.ts";
import { type DeadEffectView, deadEffectView } from "../operator/views.ts";
import type { EffectFilter } from "../stores/outbox.ts";
import { type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { outboxOf } from "./outbox-of.ts";
import { type PageValues, pageOf } from "./pages.ts";
import { shellWord, shown, shownJson, table } from "./text.ts";
import { withService } from "./with-service.ts";
import type { DatabaseValues } from "./with-store.ts";

/** Options of `latchkey list --dead`. */
export interface ListDeadValues extends DatabaseValues, PageValues {
  readonly state?: string | undefined;
  readonly operation?: string | undefined;
  readonly effect?: string | undefined;
  readonly tenant?: string | undefined;
  readonly json?: boolean | undefined;
}

/** @throws {UsageError} for options that select records. */
export async function listDead(context: CommandContext, values: ListDeadValues): Promise<ExitCode> {
  for (const option of ["state", "operation"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --dead exclude each other.`);
  }
  const { effect = null, tenant = null } = values;
  const filter: EffectFilter = { state: "dead", effect, tenant, ...pageOf(values) };
  const { found, others } = await withService(context, values, async ({ runtime, messages }) => ({
    found: await outboxOf(runtime.store).list(filter),
    others: await messages.list({ limit: 1, ...(tenant !== null && { tenant }) }),
  }));
  const next = nextPlace(found, filter.limit);
  const effects = found.map(deadEffectView);
  if (values.json) {
    context.print(shownJson({ effects, next }));
    return 0;
  }
  for (const line of linesOf(filter, effects, next)) context.print(line);
  if (others.length > 0) context.complain("Messages are dead, too: latchkey list --dead --messages");
  return 0;
}

function linesOf(filter: EffectFilter, effects: readonly DeadEffectView[], next: string | null) {
  if (effects.length === 0) return ["No effect is dead."];
  const rows = effects.map((effect) => [
    effect.createdAt,
    ...[effect.tenant, effect.operation, effect.key, effect.effect].map(shown),
    effect.death,
    shown(effect.lastErrorCode ?? ""),
  ]);
  const head = ["CREATED", "TENANT", "OPERATION", "KEY", "EFFECT", "ID", "WHY"];
  return [...table([head, ...rows]), ...(next === null ? [] : ["", moreText(filter, next)])];
}

function moreText({ effect, tenant, limit }: EffectFilter, next: string): string {
  const only = [
    ...(effect === null ? [] : [`--effect ${shellWord(effect)}`]),
    ...(tenant === null ? [] : [`--tenant ${shellWord(tenant)}`]),
  ];
  return shown(["More: latchkey list --dead", ...only, `--limit ${limit}`, `--after ${next}`].join(" "));
}
