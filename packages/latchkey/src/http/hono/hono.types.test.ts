import { type Context, Hono } from "hono";
import { hc } from "hono/client";
import { expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import { honoProtect } from "./hono.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const transactional = latchkey.operation("types.transaction", { execution: "transaction" });
const leased = latchkey.operation("types.lease", { execution: "lease" });

interface Env {
  Variables: { accountId: string };
}

test("an annotated tenant function gives handlers Hono's own context", () => {
  const protect = honoProtect(latchkey, { tenant: (c: Context<Env>) => c.get("accountId") });
  const app = new Hono<Env>();
  app.post(
    "/orders/:id",
    protect(transactional, async (c, { tx, attempt }) => {
      expectTypeOf(c).toEqualTypeOf<Context<Env>>();
      expectTypeOf(tx).toEqualTypeOf<MemoryTransaction>();
      return c.json({ id: attempt.id, account: c.get("accountId") }, 201);
    }),
  );
});

test("without annotation they get what every context has", () => {
  const protect = honoProtect(latchkey, { tenant: (c) => c.req.header("x-tenant") });
  new Hono().post(
    "/orders/:id",
    protect(leased, async (c) => c.json({ id: c.req.param("id"), body: await c.req.json() }, 201)),
  );
});

test("the type of the answer reaches Hono's client", () => {
  const protect = honoProtect(latchkey, { tenant: (c: Context) => c.req.header("x-tenant") });
  const app = new Hono().post(
    "/orders",
    protect(leased, (c) => c.json({ id: 7 })),
  );
  const client = hc<typeof app>("http://localhost");
  expectTypeOf<Awaited<ReturnType<Awaited<ReturnType<typeof client.orders.$post>>["json"]>>>().toEqualTypeOf<{
    id: number;
  }>();
});

test("a lease has no tx", () => {
  const protect = honoProtect(latchkey, { singleTenant: true });
  // @ts-expect-error there is no transaction under a lease
  protect(leased, (c, { tx }) => c.json(tx));
});
