import Koa, { type Context, type DefaultContext, type ParameterizedContext } from "koa";
import { expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import { koaProtect } from "./koa.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const transactional = latchkey.operation("types.transaction", { execution: "transaction" });
const leased = latchkey.operation("types.lease", { execution: "lease" });

interface State {
  accountId: string;
}

test("an annotated tenant function gives handlers Koa's own context", () => {
  const protect = koaProtect(latchkey, { tenant: (ctx: Context) => ctx.get("x-tenant") });
  new Koa().use(
    protect(transactional, async (ctx: Context, { tx, attempt }) => {
      expectTypeOf(tx).toEqualTypeOf<MemoryTransaction>();
      ctx.body = { id: attempt.id };
    }),
  );
});

test("an app's own state reaches tenant functions and handlers", () => {
  type Own = ParameterizedContext<State, DefaultContext>;
  const protect = koaProtect(latchkey, { tenant: (ctx: Own) => ctx.state.accountId });
  new Koa<State>().use(
    protect(transactional, (ctx: Own) => {
      expectTypeOf(ctx.state.accountId).toEqualTypeOf<string>();
      ctx.body = "done";
    }),
  );
});

test("without annotation they get what every context has", () => {
  const protect = koaProtect(latchkey, { tenant: (ctx) => ctx.get("x-tenant") });
  new Koa().use(
    protect(leased, (ctx, { attempt }) => {
      ctx.status = 201;
      ctx.body = { id: attempt.id, name: ctx.request.body.name };
    }),
  );
});

test("a lease has no tx", () => {
  const protect = koaProtect(latchkey, { singleTenant: true });
  // @ts-expect-error there is no transaction under a lease
  protect(leased, (_ctx, { tx }) => tx);
});
