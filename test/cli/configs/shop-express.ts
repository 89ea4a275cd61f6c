/** A shop on Express, as docs/coverage.md shows it. */
import express from "express";
import { createLatchkey } from "latchkey";
import { expressProtect, expressRecord } from "latchkey/express";
import { memoryStore } from "latchkey/memory";

const latchkey = createLatchkey({ store: memoryStore() });
const options = { tenant: () => "account-1" };
const protect = expressProtect(latchkey, options);
const record = expressRecord(latchkey, options);
const charge = latchkey.operation("payments.charge");
const adopted = latchkey.operation("orders.adopted", { execution: "lease" });

const orders = express.Router();
orders.use(record(adopted));
orders.post("/", (_req, res) => void res.status(201).end());
orders.delete("/:id", (_req, res) => void res.status(204).end());

export const app = express();
app.get("/payments", (_req, res) => void res.json([]));
app.post(
  "/payments",
  protect(charge, (_req, res) => void res.status(201).end()),
);
app.use("/orders", orders);
app.post("/login", (_req, res) => void res.status(204).end());
