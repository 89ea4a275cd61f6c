/** The data of one tenant on Postgres, and the removal of old audit rows. */
import type { SqlRow } from "../../../sql/transaction.ts";
import { checkStorable } from "../../storable.ts";
import { countRows, type TenantData, type TenantSweep } from "../../tenant-data.ts";
import type { PostgresExecutor } from "../executor.ts";
import { booleanOf, nullableText, textOf } from "../statements/rows.ts";
import { sweepOf, type tenantStatements } from "./tenant-statements.ts";

type SweepPosition = readonly [scope: string, key: string, id: string];

const noId = "00000000-0000-0000-0000-000000000000";
/** Before the first row of every part. */
const start: SweepPosition = ["", "", noId];

export function postgresTenantData(
  executor: PostgresExecutor,
  statements: ReturnType<typeof tenantStatements>,
): TenantData {
  const sweeps = sweepOf(statements);
  return {
    async sweep(sweep) {
      const rows = await executor.write(sweeps[sweep.part].bind(valuesOf(sweep)));
      const { tenant, part, limit, remove } = sweep;
      const last = rows.length < limit ? undefined : rows.at(-1);
      const own = rows.flatMap((row) => ownOf(row));
      return {
        ...countRows(own, remove),
        keys:
          part === "records"
            ? rows.map((row) => ({
                tenant,
                scope: textOf(row, "after_scope"),
                key: textOf(row, "after_key"),
              }))
            : [],
        next: last === undefined ? null : JSON.stringify(positionOf(last)),
      };
    },

    async note(tenant, { id, actor, reason }) {
      for (const [what, text] of Object.entries({ tenant, actor, reason })) checkStorable(what, text);
      await executor.write(statements.noteDeletion.bind({ tenant, audit_id: id, actor, reason }));
    },
  };
}

function valuesOf({ tenant, part, after, limit, remove }: TenantSweep) {
  for (const [what, text] of Object.entries({ tenant, actor: remove?.actor, reason: remove?.reason })) {
    checkStorable(what, text ?? "");
  }
  const [scope, key, id] = after === null ? start : (JSON.parse(after) as SweepPosition);
  return {
    tenant,
    limit,
    after_scope: scope,
    after_key: key,
    after_id: id,
    // Early settlements have two ids.
    after_audit_id: part === "early" && key !== "" ? key : noId,
    remove: remove !== null,
    undecided: remove?.undecided ?? false,
    actor: remove?.actor ?? null,
    reason: remove?.reason ?? null,
  };
}

function positionOf(row: SqlRow): SweepPosition {
  return [textOf(row, "after_scope"), textOf(row, "after_key"), nullableText(row, "after_id") ?? noId];
}

/** Nothing, of a row of another tenant. */
function ownOf(row: SqlRow) {
  const status = nullableText(row, "status");
  const removed = booleanOf(row, "removed");
  switch (status) {
    case null:
      return [];
    case "over":
    case "under_way":
    case "undecided":
      return [{ status, removed } as const];
    default:
      throw new TypeError(`Column status was returned as ${status}`);
  }
}
