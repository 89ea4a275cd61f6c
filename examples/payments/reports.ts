/** Reports take time: the request is answered with 202 at once, a worker creates the report, and the client fetches it. */
import type { Express, Request } from "express";
import type { Latchkey } from "latchkey";
import { expressServe, expressStatus } from "latchkey/express";
import type { Database } from "./database.ts";

const statusPath = "/operations";

export function addReports(
  app: Express,
  latchkey: Latchkey<Database>,
  { query, accountOf }: { readonly query: Database["query"]; readonly accountOf: (req: Request) => string },
): void {
  const report = latchkey.operation("payments.report", {
    execution: "deferred",
    version: "1",
    run: async ({ account }: { readonly account: string }) => {
      const { rows } = await query(
        `select currency, count(*)::int as payments, sum(amount)::text as total
         from demo_payments where account = $1 group by currency order by currency`,
        [account],
      );
      return { status: 200, body: rows };
    },
  });
  const options = { tenant: accountOf, statusPath };
  app.post(
    "/reports",
    expressServe(latchkey, options)(report, (req) => ({ account: accountOf(req) })),
  );
  app.get(`${statusPath}/:id`, expressStatus(latchkey, options));
}
