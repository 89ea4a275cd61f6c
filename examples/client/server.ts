/**
 * A shop with a slow order form: order, reload in the middle, open a second tab, switch the network off. One order is placed.
 * npm start -w latchkey-example-client; PORT and SLOW_MS (how long an order takes, 3000) are read from the environment.
 */
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { build } from "esbuild";
import express, { type Request, type Response } from "express";
import { createLatchkey } from "latchkey";
import { expressProtect, keepRawBody } from "latchkey/express";
import { memoryStore } from "latchkey/memory";

const slowMs = Number(process.env.SLOW_MS ?? 3_000);
const store = memoryStore();
const latchkey = createLatchkey({ store });
const createOrder = latchkey.operation("orders.create");
const protect = expressProtect(latchkey, { tenant: () => "demo" });

const { outputFiles } = await build({
  entryPoints: [join(import.meta.dirname, "page.ts")],
  conditions: ["latchkey-source"],
  bundle: true,
  format: "esm",
  write: false,
});
const script = outputFiles[0]?.text ?? "";
const html = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Order a book</title>
<form><label>Item <input name="item" value="book" required></label> <button>Order</button></form>
<p role="status"></p>
<script type="module" src="/page.js"></script></html>`;

const app = express().use(express.json({ verify: keepRawBody }));
app.get("/", (_req: Request, res: Response) => void res.type("html").send(html));
app.get("/page.js", (_req: Request, res: Response) => void res.type("js").send(script));
app.get("/orders", (_req: Request, res: Response) => void res.json(store.rows("orders")));
app.post(
  "/orders",
  protect(createOrder, async (req, res, { tx, attempt }) => {
    console.log(`an order of ${req.body.item} has started`);
    await pause(slowMs);
    await tx.insert("orders", { id: attempt.id, item: req.body.item });
    res.status(201).json({ id: attempt.id, item: req.body.item });
  }),
);

const server = app.listen(Number(process.env.PORT ?? 3_000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
