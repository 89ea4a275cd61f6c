/** `latchkey delete-tenant`: removes everything of one tenant. */
import { createLatchkey } from "../latchkey.ts";
import type { DeletedTenant, TenantCounts, TenantHoldings } from "../operator/delete-tenant.ts";
import { createOperator } from "../operator/operator.ts";
import { type Command, type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { databaseHelp, databaseOptions, parse, signed, wholeNumber } from "./options.ts";
import { shown, shownJson } from "./text.ts";
import { serviceOptions, withStore } from "./with-store.ts";

const waitMaxSeconds = 86_400;

const help = `Usage: latchkey delete-tenant <tenant> --dry-run [options]
       latchkey delete-tenant <tenant> --yes --operator <name> --reason <text> [options]

Removes everything of one tenant, in small steps: records with their steps and early settlements, effects, and messages. Stop
the tenant's requests first: a request repeated afterwards runs as new. Refused while anything is under way. If a run was
interrupted, the same command continues it.

  --dry-run             counts, and changes nothing
  --yes                 really delete
  --operator <name>     who decides
  --reason <text>       why; an audit row keeps both
  --wait <seconds>      wait up to this long, at most ${waitMaxSeconds}, until nothing is under way; default: 0
  --undecided           also what waits for a decision: unknown and retryable records, dead effects and messages, each with an
                        audit row; without it the command refuses if there are any
  --audit-rows          also the tenant's audit rows, except those of its deletion; default: they stay for their retention
  --config <file>       use the store of the service's config
${databaseHelp}
  --json                print the result as JSON

If your service uses \`cached\`, pass --config, so that the cached copies are removed, too.

Exit codes: 0 done, also if there was nothing, 1 failed, or something was added meanwhile: run it again, 2 called wrongly,
4 refused, nothing was changed.`;

export const deleteTenant: Command = {
  summary: "remove everything of one tenant",
  help,
  async run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: {
        ...databaseOptions,
        ...serviceOptions,
        "dry-run": { type: "boolean" },
        yes: { type: "boolean" },
        operator: { type: "string" },
        reason: { type: "string" },
        wait: { type: "string" },
        undecided: { type: "boolean" },
        "audit-rows": { type: "boolean" },
        json: { type: "boolean" },
      },
    });
    const [tenant, ...more] = positionals;
    if (tenant === undefined || more.length > 0) throw new UsageError("Name one tenant.");
    const dryRun = values["dry-run"] ?? false;
    if (dryRun === (values.yes ?? false)) {
      throw new UsageError("Use --dry-run to see what there is, or --yes to delete it.");
    }
    const by = dryRun
      ? { operator: "dry-run", reason: "dry-run" }
      : { operator: signed("operator", values.operator), reason: signed("reason", values.reason) };
    const waitMs = wholeNumber("wait", values.wait ?? "0", 0, waitMaxSeconds) * 1_000;
    const deleted = await withStore(context, values, (store) =>
      createOperator({ latchkey: createLatchkey({ store }) }).deleteTenant(tenant, by, {
        dryRun,
        waitMs,
        undecided: values.undecided ?? false,
        auditRows: values["audit-rows"] ?? false,
      }),
    );
    return say(context, tenant, deleted, values.json ?? false);
  },
};

function say(context: CommandContext, tenant: string, deleted: DeletedTenant, json: boolean): ExitCode {
  if (json) context.print(shownJson({ tenant, ...deleted }));
  const print = json ? () => {} : context.print;
  switch (deleted.kind) {
    case "counted":
      for (const line of holdingLines(deleted.found)) print(line);
      return 0;
    case "deleted":
      print(`${shown(tenant)}: deleted ${countText(deleted.removed)}. Audit row ${deleted.audit}.`);
      return 0;
    case "incomplete":
      context.complain(
        `${shown(tenant)}: deleted ${countText(deleted.removed)}, but something was added or changed meanwhile. Run it again. Audit row ${deleted.audit}.`,
      );
      return 1;
    case "refused":
      context.complain(`${deleted.title} ${deleted.detail}`);
      if (deleted.found !== null) for (const line of holdingLines(deleted.found)) context.complain(line);
      return 4;
    default:
      return deleted satisfies never;
  }
}

function holdingLines({ over, underWay, undecided }: TenantHoldings): readonly string[] {
  return [
    `Over        ${countText(over)}`,
    `Under way   ${countText(underWay)}`,
    `Undecided   ${countText(undecided)}`,
  ];
}

function countText({ records, effects, messages, auditRows }: TenantCounts): string {
  return `${records} records, ${effects} effects, ${messages} messages, ${auditRows} audit rows`;
}
