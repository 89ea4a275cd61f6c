/** Leftovers of a Koa handler's run have no effect once the run is over, nor do helpers that middleware gave it. */
import type { Context, Middleware } from "koa";
import { expect, test } from "vitest";
import { serializationFailure } from "../../../../../test/support/http-service.ts";
import { serve } from "../../../../../test/support/koa-app.ts";
import { deferred } from "../../../../../test/support/until.ts";

/** Middleware that has already read `ctx.cookies`, as sessions do. */
const asksForCookies: Middleware = (ctx, next) => {
  ctx.cookies.get("session");
  return next();
};

test("a cookie that a run sets is in its answer, beside those of middleware", async () => {
  const before: Middleware = (ctx, next) => {
    ctx.cookies.set("before", "1");
    return next();
  };
  const { call } = await serve(
    (ctx) => {
      ctx.cookies.set("own", ctx.cookies.get("given") ?? "none");
      ctx.body = "done";
    },
    { before: [before] },
  );
  const answer = await call({ headers: [["cookie", "given=2"]] });
  expect(answer.header("set-cookie")).toBe("before=1; path=/; httponly, own=2; path=/; httponly");
});

test("a cookie that a run sets after its end is not in the next run's answer", async () => {
  const leftovers: (() => void)[] = [];
  const { call } = await serve(
    (ctx) => {
      if (leftovers.length === 0) {
        leftovers.push(() => void ctx.cookies.set("late", "1"));
        throw serializationFailure();
      }
      for (const leftover of leftovers) leftover();
      ctx.body = "run 2";
    },
    { before: [asksForCookies] },
  );
  const answer = await call();
  expect([answer.status, `${answer.body}`, answer.header("set-cookie")]).toEqual([200, "run 2", null]);
});

test("a cookie that a handler sets too late is not in the error's answer", async () => {
  const late = deferred<void>();
  const answered = deferred<void>();
  const rescue: Middleware = async (ctx, next) => {
    await next().catch(async (error: { code?: string }) => {
      late.resolve();
      await answered.promise;
      ctx.status = 500;
      ctx.body = { code: error.code };
    });
  };
  const { call } = await serve(
    async (ctx) => {
      await late.promise;
      ctx.cookies.set("late", "1");
      answered.resolve();
    },
    { before: [asksForCookies, rescue], options: { transactionLimitMs: 50 } },
  );
  const answer = await call();
  expect([answer.status, answer.json(), answer.header("set-cookie")]).toEqual([
    500,
    { code: "attempt-limit" },
    null,
  ]);
});

/** A helper that a plugin adds to every context; it closes over the app's own context. */
const givesHelper: Middleware = (ctx, next) => {
  ctx.created = (body: unknown) => {
    ctx.status = 201;
    ctx.body = body;
  };
  return next();
};
const created = (ctx: Context, body: unknown) => (ctx.created as (body: unknown) => void)(body);

test("an answer through a helper that closes over the app's context is the run's", async () => {
  const { call } = await serve((ctx) => created(ctx, { id: 1 }), { before: [givesHelper] });
  for (const answer of [await call({ key: "k" }), await call({ key: "k" })]) {
    expect([answer.status, answer.json()]).toEqual([201, { id: 1 }]);
  }
});

test("a rolled-back run's answer through such a helper is not the error's answer", async () => {
  const rescue: Middleware = async (ctx, next) => {
    await next().catch(() => {
      ctx.status = 503;
    });
  };
  const { call } = await serve(
    (ctx) => {
      created(ctx, { id: "rolled back" });
      throw new Error("no");
    },
    { before: [givesHelper, rescue] },
  );
  const answer = await call();
  expect([answer.status, `${answer.body}`]).toEqual([503, "Service Unavailable"]);
});

test("nor the next run's", async () => {
  let runs = 0;
  const { call } = await serve(
    (ctx) => {
      runs += 1;
      if (runs > 1) return;
      created(ctx, { id: "rolled back" });
      throw serializationFailure();
    },
    { before: [givesHelper] },
  );
  const answer = await call();
  expect([answer.status, `${answer.body}`]).toEqual([404, "Not Found"]);
});
