/** Summaries of requests on Postgres. */
import type { Summaries } from "../../life.ts";
import type { PostgresExecutor } from "../executor.ts";
import { bytesOf, foundRows, textOf } from "../statements/rows.ts";
import { keyValues } from "../statements/values.ts";
import type { maintenanceStatements } from "./maintenance-statements.ts";

export function postgresSummaries(
  executor: PostgresExecutor,
  { summary }: Pick<ReturnType<typeof maintenanceStatements>, "summary">,
): Summaries {
  return {
    async of(key, id) {
      const [row] = foundRows(await executor.read(summary.bind({ ...keyValues(key), id })), "summary");
      return row === undefined ? null : bytesOf(textOf(row, "summary"));
    },
  };
}
