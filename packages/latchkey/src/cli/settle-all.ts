/** `latchkey settle --all`. */
import { recordSource, walkMatching } from "../operator/queues.ts";
import { type Bulk, bulkOptions, filterOf, runBulk, type Target } from "./bulk.ts";
import { type CommandContext, type ExitCode, refusal, UsageError } from "./command.ts";
import { findRecord } from "./find-record.ts";
import { databaseOptions, parse, signed, wholeNumber } from "./options.ts";
import { settleFound, settlementFor } from "./settle-found.ts";
import { dayMs, outcomeOf, retentionMaxMs, type SettleOptions } from "./settle-options.ts";
import { type CommandStore, withStore } from "./with-store.ts";

interface SeenTarget extends Target {
  readonly attempt: number;
}

type Shared = Omit<SettleOptions, "named">;

export async function settleAll(context: CommandContext): Promise<ExitCode> {
  const { values } = parse({
    args: [...context.args],
    options: {
      ...databaseOptions,
      ...bulkOptions,
      config: { type: "string" },
      "not-executed": { type: "boolean" },
      proof: { type: "string" },
      failed: { type: "string" },
      "retention-ms": { type: "string" },
      operator: { type: "string" },
      reason: { type: "string" },
    },
  });
  if (values.proof === "closed-downstream") {
    throw new UsageError("--proof closed-downstream applies to one call: settle each record separately.");
  }
  const shared: Shared = {
    outcome: outcomeOf(values, context.cwd),
    operator: signed("operator", values.operator),
    reason: signed("reason", values.reason),
    retentionMs: wholeNumber("retention-ms", values["retention-ms"] ?? String(dayMs), 1, retentionMaxMs),
    dryRun: values["dry-run"] ?? false,
    json: values.json ?? false,
    database: values,
  };
  return withStore(context, values, async (store, hasCodec) => {
    if (hasCodec) throw refusal("This service stores through a codec: settle with `latchkey.settle`.");
    const filter = await filterOf(store, values);
    const bulk: Bulk<SeenTarget> = {
      verb: "settle",
      targets: walkMatching(recordSource(store, "unknown", filter), filter),
      act: (target, dryRun) => settleSeenOne(store, target, shared, dryRun),
    };
    return runBulk(context, bulk, values);
  });
}

async function settleSeenOne(
  store: CommandStore,
  { id, attempt }: SeenTarget,
  shared: Shared,
  dryRun: boolean,
): Promise<string> {
  const found = await findRecord(store, { recordId: id });
  const { record } = found;
  if (record.state === "unknown" && record.fence.attempt !== attempt) {
    throw refusal("It has continued and become unknown again since it was listed.");
  }
  const options: SettleOptions = { ...shared, named: { recordId: id } };
  if (!dryRun) return (await settleFound(store, found, options)).entry.id;
  if (record.state !== "unknown") throw refusal(`It is now ${record.state}.`);
  await settlementFor(store, found, options);
  return "";
}
