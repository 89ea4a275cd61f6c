import { placeText } from "../operator/pages.ts";
import { readAuditLog } from "../operator/queues.ts";
import type { AuditLogView } from "../operator/views.ts";
import { type BulkValues, filterOf } from "./bulk.ts";
import { type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { filterWords, type PageValues, pageOf } from "./pages.ts";
import { shown, shownJson, table } from "./text.ts";
import type { ServiceValues } from "./with-service.ts";
import { withStore } from "./with-store.ts";

/** Options of `latchkey list --audit`. */
export interface ListAuditValues extends ServiceValues, PageValues, BulkValues {
  readonly state?: string | undefined;
}

const others = ["state", "operation", "effect", "older-than", "error-code"] as const;

/** @throws {UsageError} for options that select records. */
export async function listAudit(context: CommandContext, values: ListAuditValues): Promise<ExitCode> {
  for (const option of others) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --audit exclude each other.`);
  }
  const { limit, after } = pageOf(values);
  const from = after === null ? null : placeText(after);
  const page = await withStore(context, values, async (store) => {
    const { tenant = null } = await filterOf(store, values);
    return readAuditLog(store, tenant, { limit, from });
  });
  if (page === null) {
    context.complain("This store has audit rows by key only: `latchkey inspect` shows those of one record.");
    return 1;
  }
  const { items: entries, next } = page;
  if (values.json) context.print(shownJson({ entries, next }));
  else for (const line of auditLogLines(values, limit, entries, next)) context.print(line);
  return 0;
}

export function auditLogLines(
  values: ListAuditValues,
  limit: number,
  entries: readonly AuditLogView[],
  next: string | null,
): readonly string[] {
  if (entries.length === 0) return ["The audit log has no rows."];
  const rows = entries.map((entry) => [
    entry.at,
    ...[entry.actor, entry.event, entry.tenant].map(shown),
    shown(entry.key === "" ? "-" : entry.key),
    entry.recordId,
    `${entry.from} → ${entry.to}`,
    shown(entry.proof),
    shown(entry.reason ?? ""),
  ]);
  const head = ["AT", "WHO", "DID", "TENANT", "KEY", "RECORD", "CHANGE", "PROOF", "REASON"];
  const words = [
    "More: latchkey list --audit",
    ...filterWords(values),
    `--limit ${limit}`,
    `--after ${next}`,
  ];
  return [...table([head, ...rows]), ...(next === null ? [] : ["", shown(words.join(" "))])];
}
