import express, { type Request, type Response } from "express";
import { expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import { expressProtect, expressRecord, keepRawBody } from "./express.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const transactional = latchkey.operation("types.transaction", { execution: "transaction" });
const leased = latchkey.operation("types.lease", { execution: "lease" });
const app = express();
app.use(express.json({ verify: keepRawBody }), express.urlencoded({ verify: keepRawBody }));

test("an annotated tenant function gives handlers Express's own request and response", () => {
  const protect = expressProtect(latchkey, { tenant: (req: Request) => req.header("x-tenant") });
  app.post(
    "/annotated/:id",
    protect(transactional, async (req, res, { tx, attempt }) => {
      expectTypeOf(req).toEqualTypeOf<Request>();
      expectTypeOf(res).toEqualTypeOf<Response>();
      expectTypeOf(tx).toEqualTypeOf<MemoryTransaction>();
      expectTypeOf(attempt.id).toEqualTypeOf<string>();
      res.status(201).location(`/orders/${req.params.id}`).json(req.body);
    }),
  );
});

test("without annotation they get what both versions of Express share", () => {
  const protect = expressProtect(latchkey, { tenant: (req) => req.get("x-tenant") });
  app.post(
    "/bare/:id",
    protect(transactional, async (req, res, { tx }) => {
      expectTypeOf(tx).toEqualTypeOf<MemoryTransaction>();
      const { amount } = req.body;
      res.status(201).set("x-amount", String(amount)).json({ id: req.params.id, path: req.path });
    }),
  );
});

test("a route may name its own request, and a handler its parameters", () => {
  const protect = expressProtect(latchkey, { singleTenant: true });
  const handler = protect(leased, (req: Request<{ id: string }>, res: Response<{ id: string }>) => {
    res.json({ id: req.params.id });
  });
  app.post("/own/:id", handler);
});

test("a lease has no tx", () => {
  const protect = expressProtect(latchkey, { singleTenant: true });
  // @ts-expect-error there is no transaction under a lease
  protect(leased, (_req, res, { tx }) => res.json(tx));
});

test("the tenant has no default", () => {
  // @ts-expect-error neither `tenant` nor `singleTenant`
  const refused = () => expressProtect(latchkey, {});
  // @ts-expect-error both
  const contradictory = () => expressProtect(latchkey, { singleTenant: true, tenant: () => "a" });
  expectTypeOf(refused).toBeFunction();
  expectTypeOf(contradictory).toBeFunction();
});

test("a mount that records takes only lease operations, and is middleware", () => {
  const record = expressRecord(latchkey, { tenant: (req: Request) => req.ip });
  app.use(record(leased));
  // @ts-expect-error a mount cannot give anybody a transaction
  const refused = () => record(transactional);
  expectTypeOf(refused).toBeFunction();
});
