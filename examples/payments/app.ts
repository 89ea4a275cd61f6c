/** A payments API whose POST can be retried: one charge and one answer, however often the request arrives. */
import express, { type Express, type Request } from "express";
import { createLatchkey, type EventListener, type Latchkey, type Store } from "latchkey";
import { expressProtect, expressServe, keepRawBody } from "latchkey/express";
import { type ChargeInput, chargeWork, neverArrived, type ProviderInput, sendCharge } from "./charges.ts";
import type { Database } from "./database.ts";
import type { Charge } from "./provider-ledger.ts";
import { defineReceipt, type MailService } from "./receipts.ts";
import { addReports } from "./reports.ts";
import type { Settings } from "./settings.ts";
import { addTrouble } from "./trouble.ts";
import { withoutLatchkey } from "./without-latchkey.ts";

/** Who may call, for which account. A real service uses its authentication instead. */
const accounts = new Map([
  ["demo-token", "account-1"],
  ["other-token", "account-2"],
]);

export interface AppOptions extends Pick<Settings, "providerUrl" | "leaseMs" | "compare"> {
  readonly store: Store<Database>;
  readonly query: Database["query"];
  readonly mail: MailService;
  readonly onEvent?: EventListener;
}

export function createApp(options: AppOptions): {
  readonly app: Express;
  readonly latchkey: Latchkey<Database>;
} {
  const { store, query, providerUrl, onEvent } = options;
  const latchkey = createLatchkey({ store, ...(onEvent !== undefined && { onEvent }) });
  const app = express();
  app.use(express.json({ verify: keepRawBody }));
  app.use(authenticate);
  addPayments(app, latchkey, options);
  addReports(app, latchkey, { query, accountOf });
  addTrouble(app, latchkey, accountOf);
  if (providerUrl !== null) addCharges(app, latchkey, { ...options, providerUrl });
  return { app, latchkey };
}

/** Payments stay inside our database: the row, the answer and the receipt to send commit together. */
function addPayments(
  app: Express,
  latchkey: Latchkey<Database>,
  { query, mail }: Pick<AppOptions, "query" | "mail">,
): void {
  const createPayment = latchkey.operation("payments.create");
  const receipt = defineReceipt(latchkey, mail);
  const protect = expressProtect(latchkey, { tenant: accountOf });

  app.post(
    "/payments",
    protect(createPayment, async (req, res, { tx, attempt }) => {
      const { amount, currency = "EUR" } = req.body ?? {};
      if (!isAmount(amount) || !isCurrency(currency)) {
        attempt.release(); // Nothing happened: the caller may correct the request and use the key again.
        res.status(400).json({
          error: `amount must be a whole number from 1 to ${amountMax} (minor units), currency three capital letters`,
        });
        return;
      }
      const { rows } = await tx.query(
        "insert into demo_payments (account, amount, currency) values ($1, $2, $3) returning id",
        [accountOf(req), amount, currency],
      );
      const id = Number(rows[0]?.id);
      attempt.enqueue(receipt, { account: accountOf(req), payment: id, amount, currency });
      res.status(201).location(`/payments/${id}`).json({ id, amount, currency });
    }),
  );

  app.get("/payments", async (req, res) => {
    const { rows } = await query(
      "select id, amount, currency from demo_payments where account = $1 order by id",
      [accountOf(req)],
    );
    res.json(rows);
  });

  app.get("/receipts", (req, res) => {
    res.json(mail.sentTo(accountOf(req)));
  });
}

/** Charges go to a provider: steps are stored around the call, and a retry continues after the last one. */
function addCharges(
  app: Express,
  latchkey: Latchkey<Database>,
  { query, providerUrl, leaseMs, compare }: AppOptions & { readonly providerUrl: string },
): void {
  const provider = latchkey.effect<ProviderInput, Charge>("provider.charge", {
    deduplication: "provider",
    dedupeWindowMs: 24 * 60 * 60 * 1000,
    execute: (input, call) => sendCharge(providerUrl, input, call),
    isNotExecuted: neverArrived,
  });
  const work = chargeWork(provider);
  const charge = latchkey.operation("payments.charge", {
    execution: "lease",
    leaseEnd: "resume",
    leaseMs,
    version: "1",
    run: work,
  });
  const serve = expressServe(latchkey, { tenant: accountOf });

  app.post("/charges", checkCharge, serve(charge, toCharge));

  app.get("/charges", async (req, res) => {
    const { rows } = await query(
      `select id, order_name as "order", amount, currency, state, provider_charge as charge
       from demo_charges where account = $1 order by id`,
      [accountOf(req)],
    );
    res.json(rows);
  });

  if (compare) {
    const unprotected = withoutLatchkey(query, work);
    app.post("/charges-without-latchkey", checkCharge, async (req, res) => {
      const { status = 200, body } = await unprotected(toCharge(req));
      res.status(status).json(body);
    });
  }
}

const checkCharge: express.RequestHandler = (req, res, next) => {
  const { amount, currency = "EUR", order } = req.body ?? {};
  if (isAmount(amount) && isCurrency(currency) && isOrder(order)) return next();
  res
    .status(400)
    .json({ error: "send amount (minor units), order (1 to 100 characters), and maybe currency" });
};

function toCharge(req: Request): ChargeInput {
  const { amount, currency = "EUR", order } = req.body;
  return { account: accountOf(req), amount, currency, order };
}

/** The maximum of Postgres' `integer`. */
const amountMax = 2_147_483_647;

function isAmount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) > 0 && Number(value) <= amountMax;
}

function isCurrency(value: unknown): value is string {
  return typeof value === "string" && /^[A-Z]{3}$/u.test(value);
}

function isOrder(value: unknown): value is string {
  return typeof value === "string" && /^[\p{L}\p{N} ._-]{1,100}$/u.test(value);
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
