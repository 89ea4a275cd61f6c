/** Trouble on request, so that the console has something to show: an unknown outcome, and a dead letter. */
import type { Express, Request } from "express";
import { EffectRefused, type Latchkey } from "latchkey";
import { expressProtect, expressServe } from "latchkey/express";
import type { Database } from "./database.ts";

type AccountOf = (req: Request) => string;

export function addTrouble(app: Express, latchkey: Latchkey<Database>, accountOf: AccountOf): void {
  addUnknown(app, latchkey, accountOf);
  addDead(app, latchkey, accountOf);
}

/** A bank that receives the order and does not answer. It cannot be asked, so only a person can find out what happened. */
function addUnknown(app: Express, latchkey: Latchkey<Database>, tenant: AccountOf): void {
  const bank = latchkey.effect<{ readonly amount: number }, { readonly id: string }>("bank.transfer", {
    deduplication: "none",
    execute: async () => {
      throw new Error("the bank did not answer");
    },
  });
  const transfer = latchkey.operation("transfers.create", {
    execution: "lease",
    leaseEnd: "resume",
    version: "1",
    async run({ amount }: { readonly amount: number }, attempt) {
      await attempt.phase("transfer_noted", async () => ({ amount }));
      const { id } = await attempt.call("transferred", bank, { amount });
      return { status: 201, body: { id, amount } };
    },
  });
  const serve = expressServe(latchkey, { tenant });
  app.post(
    "/trouble/unknown",
    serve(transfer, (req) => ({ amount: Number(req.body?.amount ?? 500) })),
  );
}

/** A mail server that permanently refuses an address. */
function addDead(app: Express, latchkey: Latchkey<Database>, tenant: AccountOf): void {
  const mail = latchkey.effect<{ readonly to: string }, null>("mail.send", {
    deduplication: "none",
    execute: async () => {
      throw new EffectRefused({ message: "550, no such mailbox" });
    },
  });
  const invite = latchkey.operation("invitations.create", { execution: "transaction", writes: "none" });
  const protect = expressProtect(latchkey, { tenant });
  app.post(
    "/trouble/dead",
    protect(invite, async (_req, res, { attempt }) => {
      attempt.enqueue(mail, { to: "nobody@example.com" });
      res.status(202).json({ invited: "nobody@example.com" });
    }),
  );
}
