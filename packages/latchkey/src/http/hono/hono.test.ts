import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { HTTPException } from "hono/http-exception";
import { validator } from "hono/validator";
import { describe, expect, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import { honoProtect } from "./hono.ts";

type Handler = (
  c: Context,
  context: HandlerContext<MemoryTransaction, "transaction">,
) => Response | Promise<Response>;

function appWith(handler: Handler, before: (app: Hono) => void = () => {}) {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("run", { writes: "none" });
  const protect = honoProtect(latchkey, { tenant: (c: Context) => c.req.header("X-Tenant") });
  const app = new Hono();
  before(app);
  app.post("/run/:id", protect(operation, handler));
  return app;
}

let keysMade = 0;
const newKey = () => `key-${++keysMade}`;

async function post(app: Hono, key: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers({
    "Content-Type": "application/json",
    "X-Tenant": "t",
    "Idempotency-Key": key,
  });
  for (const [name, value] of new Headers(init.headers)) headers.set(name, value);
  return app.request("/run/7", { method: "POST", body: '{"amount":1}', ...init, headers });
}

describe("honoProtect", () => {
  test("the context is Hono's own, and a replay has what the handler set on it", async () => {
    const app = appWith(async (c) => {
      c.header("ETag", '"1"');
      c.header("Set-Cookie", "a=1", { append: true });
      c.header("Set-Cookie", "b=2", { append: true });
      c.status(201);
      return c.json({ id: c.req.param("id"), body: await c.req.json() });
    });
    const key = newKey();
    const first = await post(app, key);
    const replay = await post(app, key);
    expect(first.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(replay.headers.getSetCookie()).toEqual([]);
    for (const response of [first, replay]) {
      expect([response.status, response.headers.get("ETag")]).toEqual([201, '"1"']);
      expect(await response.json()).toEqual({ id: "7", body: { amount: 1 } });
    }
    expect(replay.headers.get("Idempotent-Replayed")).toBe("true");
  });

  test("headers of this request's middleware are sent with a replay too, whichever way they were set", async () => {
    let requests = 0;
    const app = appWith(
      (c) => {
        c.header("Set-Cookie", "handler=1", { append: true });
        c.header("Cache-Control", "private");
        return c.text("done");
      },
      (it) =>
        it.use(cors({ origin: "https://shop.example", credentials: true })).use(async (c, next) => {
          requests += 1;
          c.header("X-Request-Id", `r-${requests}`);
          c.header("Cache-Control", "no-cache");
          c.header("Set-Cookie", `request=${requests}`, { append: true });
          await next();
          c.header("X-After", "1");
        }),
    );
    const key = newKey();
    const init = { headers: { Origin: "https://shop.example" } };
    const first = await post(app, key, init);
    const replay = await post(app, key, init);
    for (const [number, response] of [first, replay].entries()) {
      expect(response.headers.get("Access-Control-Allow-Origin")).toBe("https://shop.example");
      expect(response.headers.get("X-Request-Id")).toBe(`r-${number + 1}`);
      expect(response.headers.get("X-After")).toBe("1");
      expect(response.headers.get("Cache-Control"), "the answer's own").toBe("private");
    }
    expect(first.headers.getSetCookie()).toEqual(["request=1", "handler=1"]);
    expect(replay.headers.getSetCookie()).toEqual(["request=2"]);
  });

  test("a run that is rolled back and repeated starts from a clean context", async () => {
    let runs = 0;
    const app = appWith(
      async (c) => {
        runs += 1;
        c.header("X-Run", String(runs), { append: true });
        c.header("Set-Cookie", `run=${runs}`, { append: true });
        if (runs === 1) {
          c.status(418);
          await c.req.raw.json();
          throw Object.assign(new Error("could not serialize access"), { code: "40001" });
        }
        return c.json(await c.req.json());
      },
      (it) =>
        it.use(async (c, next) => {
          c.header("X-Before", "1");
          await next();
        }),
    );
    const response = await post(app, newKey());
    expect([response.status, response.headers.get("X-Run"), response.headers.get("X-Before")]).toEqual([
      200,
      "2",
      "1",
    ]);
    expect(response.headers.getSetCookie()).toEqual(["run=2"]);
    expect(await response.json()).toEqual({ amount: 1 });
  });

  test("a handler that throws leaves no traces on Hono's answer", async () => {
    const app = appWith(
      (c) => {
        c.header("X-Handler", "1");
        c.status(201);
        throw new HTTPException(402, { message: "no money" });
      },
      (it) =>
        it
          .use(async (c, next) => {
            c.header("X-Before", "1");
            await next();
          })
          .onError((error, c) => {
            expect(c.res.headers.get("X-Handler")).toBeNull();
            return error instanceof HTTPException
              ? c.text(error.message, error.status)
              : c.text("failed", 500);
          }),
    );
    const response = await post(app, newKey());
    expect([response.status, await response.text()]).toEqual([402, "no money"]);
    expect([response.headers.get("X-Handler"), response.headers.get("X-Before")]).toEqual([null, "1"]);
  });

  test("a validator before it may read JSON, text or bytes", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const operation = latchkey.operation("run", { writes: "none" });
    const protect = honoProtect(latchkey, { tenant: (c: Context) => c.req.header("X-Tenant") });
    for (const read of ["json", "text", "arrayBuffer"] as const) {
      const app = new Hono().use(async (c, next) => {
        await c.req[read]();
        await next();
      });
      app.post(
        "/run/:id",
        validator("json", (value) => value as { amount: number }),
        protect(operation, async (c) => c.json(await c.req.json())),
      );
      const key = newKey();
      expect(await (await post(app, key)).json()).toEqual({ amount: 1 });
      expect((await post(app, key)).headers.get("Idempotent-Replayed")).toBe("true");
      expect((await post(app, key, { body: '{"amount":2}' })).status).toBe(422);
    }
  });

  test("a body that was read in any other way is an error that names the fix", async () => {
    const errors: Error[] = [];
    const reads: readonly ((c: Context) => Promise<unknown>)[] = [
      (c) => c.req.raw.text(),
      (c) => c.req.formData(),
    ];
    for (const read of reads) {
      const app = appWith(
        (c) => c.text("done"),
        (it) =>
          it
            .use(async (c, next) => {
              await read(c);
              await next();
            })
            .onError((error, c) => {
              errors.push(error);
              return c.text("failed", 500);
            }),
      );
      const init = { headers: { "Content-Type": "application/x-www-form-urlencoded" }, body: "a=1" };
      expect((await post(app, newKey(), init)).status).toBe(500);
    }
    for (const error of errors) {
      expect(error).toMatchObject({
        code: "body-consumed",
        message: expect.stringContaining("c.req.text()"),
      });
    }
    expect(errors).toHaveLength(2);
  });

  test("off Node, a comma outside quotes is a repeated key", async () => {
    const app = appWith((c) => c.text("done"));
    expect((await post(app, "a, b")).status).toBe(400);
    expect((await post(app, '"a, b"')).status).toBe(200);
  });

  test("without a key, if none is required, the handler answers directly", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const operation = latchkey.operation("run", { execution: "lease", key: "optional" });
    const protect = honoProtect(latchkey, { singleTenant: true });
    const app = new Hono().post(
      "/run",
      protect(operation, async (c) => {
        c.header("X-A", "1");
        return c.json(await c.req.json(), 201);
      }),
    );
    const response = await app.request("/run", { method: "POST", body: '{"a":1}' });
    expect([response.status, await response.json(), response.headers.get("X-A")]).toEqual([
      201,
      { a: 1 },
      "1",
    ]);
  });

  describe("a run that is over has no effect", () => {
    const leftovers: Record<string, (c: Context) => unknown> = {
      "a header": (c) => c.header("X-Late", "1"),
      "a cookie": (c) => c.header("Set-Cookie", "late=1", { append: true }),
      "a status": (c) => c.status(299 as 200),
      "an answer with headers": (c) => c.json({ late: true }, 299 as 200, { "X-Late": "1" }),
      "headers of the response in preparation": (c) => c.res.headers.set("X-Late", "1"),
      "another response": (c) => {
        c.res = new Response("late", { headers: { "X-Late": "1" } });
      },
    };

    test.each(Object.entries(leftovers))("the next run's answer does not have %s", async (_what, leave) => {
      const left: Context[] = [];
      const app = appWith((c) => {
        left.push(c);
        if (left.length === 1) throw Object.assign(new Error("could not serialize"), { code: "40001" });
        leave(left[0] as Context);
        return c.json({ run: left.length });
      });
      const answer = await post(app, newKey());
      expect([answer.status, answer.headers.get("X-Late"), answer.headers.get("Set-Cookie")]).toEqual([
        200,
        null,
        null,
      ]);
      expect(await answer.json()).toEqual({ run: 2 });
    });

    test.each(Object.entries(leftovers))("an error's answer does not have %s", async (_what, leave) => {
      let left: Context | null = null;
      const app = appWith(
        (c) => {
          left = c;
          throw new Error("no");
        },
        (before) =>
          before.onError(async (error, c) => {
            leave(left as unknown as Context);
            return c.json({ message: error.message }, 500);
          }),
      );
      const answer = await post(app, newKey());
      expect([answer.status, answer.headers.get("X-Late"), answer.headers.get("Set-Cookie")]).toEqual([
        500,
        null,
        null,
      ]);
      expect(await answer.json()).toEqual({ message: "no" });
    });
  });
});
