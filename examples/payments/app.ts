/** A payments API whose POST can be retried: one charge, one answer, however often it arrives. */
import express, { type Express, type Request } from "express";
import { createLatchkey, type Store } from "latchkey";
import { expressProtect, keepRawBody } from "latchkey/express";
import type { Database } from "./database.ts";

/** Who may call, and for which account. A real service asks its authentication instead. */
const accounts = new Map([
  ["demo-token", "account-1"],
  ["other-token", "account-2"],
]);

export function createApp({ store, query }: { store: Store<Database>; query: Database["query"] }): Express {
  const latchkey = createLatchkey({ store });
  const createPayment = latchkey.operation("payments.create");
  const protect = expressProtect(latchkey, { tenant: accountOf });

  const app = express();
  app.use(express.json({ verify: keepRawBody }));
  app.use(authenticate);

  app.post(
    "/payments",
    protect(createPayment, async (req, res, { tx, attempt }) => {
      const { amount, currency } = req.body;
      if (!Number.isSafeInteger(amount) || amount <= 0) {
        attempt.release(); // Nothing happened: the caller may mend the request and use the key again.
        res.status(400).json({ error: "amount must be a positive whole number of minor units" });
        return;
      }
      const { rows } = await tx.query(
        "insert into payments (account, amount, currency) values ($1, $2, $3) returning id",
        [accountOf(req), amount, currency ?? "EUR"],
      );
      const id = rows[0]?.id;
      res
        .status(201)
        .location(`/payments/${id}`)
        .json({ id, amount, currency: currency ?? "EUR" });
    }),
  );

  app.get("/payments", async (req, res) => {
    const { rows } = await query("select id, amount, currency from payments where account = $1 order by id", [
      accountOf(req),
    ]);
    res.json(rows);
  });

  return app;
}

function accountOf(req: Request): string {
  return accounts.get(tokenOf(req)) ?? "";
}

function tokenOf(req: Request): string {
  return req.get("authorization")?.replace(/^Bearer /u, "") ?? "";
}

const authenticate: express.RequestHandler = (req, res, next) => {
  if (accounts.has(tokenOf(req))) next();
  else res.status(401).json({ error: "send `Authorization: Bearer demo-token`" });
};
