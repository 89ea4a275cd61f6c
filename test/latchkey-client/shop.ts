/** A real Latchkey server for the client's tests: orders in the memory store, reports that are made later. */
import express, { type Request, type Response } from "express";
import {
  expressProtect,
  expressServe,
  expressStatus,
  keepRawBody,
} from "../../packages/latchkey/src/http/express/express.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { ietf } from "../../packages/latchkey/src/operations/policies/ietf.ts";
import { stripe } from "../../packages/latchkey/src/operations/policies/stripe.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { FaultPlan } from "../../packages/latchkey/src/testing/faulty-store/fault.ts";
import { faultyStore } from "../../packages/latchkey/src/testing/faulty-store.ts";
import { listen } from "../support/listen.ts";
import { onRelease } from "../support/resources.ts";
import { type Deferred, deferred } from "../support/until.ts";

/** `strict`: Latchkey's own policy, and keys in the syntax of the IETF draft alone. */
export type ShopKind = "ietf" | "stripe" | "strict";

export interface Shop {
  readonly url: string;
  readonly port: number;
  /** Items of the orders that were committed, oldest first. */
  orders(): readonly unknown[];
  /** The key of each POST that arrived, in order; undefined: it had none. */
  readonly keys: (string | undefined)[];
  /** Handlers of this item wait until it is resolved. */
  hold(item: string): Deferred<void>;
  /** Starts a worker for what was accepted. */
  work(): void;
  close(): Promise<void>;
}

export interface ShopOptions {
  readonly faults?: FaultPlan;
  /** Pages, by path: body and type. */
  readonly pages?: Readonly<Record<string, readonly [body: string, type: string]>>;
}

export async function openShop(
  kind: ShopKind,
  { faults = () => "proceed", pages = {} }: ShopOptions = {},
): Promise<Shop> {
  const memory = memoryStore();
  const { store } = faultyStore(memory, faults);
  const latchkey = createLatchkey({ store, policy: kind === "stripe" ? stripe : ietf });
  const options = {
    tenant: () => "shop",
    statusPath: "/operations",
    ...(kind === "strict" ? { key: { syntax: "strict" } as const } : {}),
  };
  const protect = expressProtect(latchkey, options);
  const serve = expressServe(latchkey, options);
  const held = new Map<string, Deferred<void>>();
  const keys: (string | undefined)[] = [];
  const app = express();
  for (const [path, [body, type]] of Object.entries(pages)) {
    app.get(path, (_req: Request, res: Response) => void res.type(type).send(body));
  }
  app.use((req: Request, _res: Response, next: () => void) => {
    if (req.method === "POST") keys.push(req.get("idempotency-key"));
    next();
  });
  app.use(express.json({ verify: keepRawBody }));
  const create = latchkey.operation("orders.create", { execution: "transaction" });
  app.post(
    "/orders",
    protect(create, async (req, res, { tx, attempt }) => {
      const { item } = req.body;
      await held.get(item)?.promise;
      if (item === "declined") return void res.status(402).json({ message: "declined" });
      await tx.insert("orders", { item });
      res.status(201).json({ id: attempt.id, item });
    }),
  );
  const report = latchkey.operation("reports.create", {
    execution: "deferred",
    version: "1",
    run: async ({ month }: { month: string }) => ({ status: 201, headers: {}, body: { month } }),
  });
  app.post(
    "/reports",
    serve(report, (req) => ({ month: String(req.body.month) })),
  );
  app.get("/operations/:id", expressStatus(latchkey, options));
  const server = await listen(app);
  const close = async () => {
    for (const gate of held.values()) gate.resolve();
    await latchkey.close();
    await server.close();
  };
  onRelease(close);
  return {
    url: server.url,
    port: Number(new URL(server.url).port),
    orders: () => memory.rows("orders").map(({ item }) => item),
    keys,
    hold(item) {
      const gate = deferred();
      held.set(item, gate);
      return gate;
    },
    work: () => void latchkey.startWorker(),
    close,
  };
}
