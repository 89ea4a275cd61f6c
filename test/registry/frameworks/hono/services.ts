import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { honoProtect, honoServe, honoStatus } from "../../../../packages/latchkey/src/http/hono/hono.ts";
import { breakRequest, type SmallServices, single, statusOptions } from "../../../http/small-services.ts";

/** Requests and responses, whose types are not looked at here. */
type Loose = ReturnType<JSON["parse"]>;

export const services: SmallServices = {
  served({ latchkey, operation }) {
    const serve = honoServe(latchkey, single);
    let requests = 0;
    const app = new Hono().use(async (c, next) => {
      c.header("X-Request", String(++requests));
      await next();
    });
    app.onError((error, c) => (error instanceof HTTPException ? error.getResponse() : c.text("failed", 500)));
    app.post(
      "/run",
      serve(operation, async (c) => {
        const { amount } = await c.req.json();
        c.header("X-Half", "done");
        if (amount === 422) throw new HTTPException(422);
        return { amount };
      }),
    );
    return getRequestListener(app.fetch);
  },
  status({ latchkey, operation }) {
    let requests = 0;
    const app = new Hono().basePath("/v1").use(async (c, next) => {
      c.header("X-Request", String(++requests));
      c.header("Cache-Control", "public");
      await next();
    });
    app.post(
      "/run",
      honoServe(latchkey, statusOptions)(operation, () => null as never),
    );
    app.get("/operations/:id", honoStatus(latchkey, statusOptions));
    return getRequestListener(app.fetch);
  },
  notStarted: {
    Hono: ({ latchkey, lease }, run) => {
      const handler = honoProtect(latchkey, single)(lease(), (c: Loose) => {
        run();
        return c.body(null, 201);
      });
      const app = new Hono()
        .use((c, next) => {
          const raw = breakRequest(c.req.raw);
          if (raw !== c.req.raw) c.req.raw = raw;
          return next();
        })
        .post("/run", handler as Loose)
        .onError((_error, c) => c.body(null, 500));
      return getRequestListener(app.fetch);
    },
  },
  routed: ({ latchkey, lease }, options) =>
    getRequestListener(
      new Hono().basePath("/items").post(
        "/*",
        honoProtect(latchkey, single)(lease(options), (c) => c.text("done")),
      ).fetch,
    ),
};
