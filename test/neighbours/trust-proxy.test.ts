/** Behind a trusted proxy handlers see the client's address and origin; a retry through another proxy is the same request. */
import type { RequestListener } from "node:http";
import express from "express";
import express4 from "express4";
import fastify from "fastify";
import Koa from "koa";
import { expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { variantsWith } from "../registry/frameworks.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

type Loose = ReturnType<JSON["parse"]>;
type Service = ReturnType<typeof httpService>;

const seenBy = ({ ip, ips, protocol, hostname }: Loose) => ({ ip, ips, protocol, hostname });
/** The tenant may be what a proxy says. */
const tenant = ({ hostname }: Loose): string => hostname;

const onExpress =
  (framework: Loose) =>
  ({ latchkey, lease }: Service): RequestListener =>
    framework()
      .set("trust proxy", true)
      .post(
        "/run",
        expressProtect(latchkey, { tenant })(lease(), (req: Loose, res: Loose) => {
          const seen = seenBy(req);
          res.location(`${seen.protocol}://${seen.hostname}/orders/1`).json(seen);
        }),
      );

const apps: Readonly<Record<string, (service: Service) => RequestListener | Promise<RequestListener>>> = {
  express: onExpress(express),
  express4: onExpress(express4),
  fastify: async ({ latchkey, lease }) => {
    const app: Loose = fastify({ trustProxy: true });
    const protect = fastifyProtect(app, latchkey, { tenant });
    const handler = async (request: Loose, reply: Loose) => {
      const { ip, ips, protocol, hostname } = seenBy(request);
      reply.header("location", `${protocol}://${hostname}/orders/1`);
      // Fastify counts from its own socket.
      return { ip, ips: ips.toReversed().slice(0, 2), protocol, hostname };
    };
    app.post("/run", protect(lease(), handler));
    await app.ready();
    return (req, res) => void app.routing(req, res);
  },
  koa: ({ latchkey, lease }) => {
    const app = new Koa({ proxy: true });
    app.use(
      koaProtect(latchkey, { tenant })(lease(), (ctx: Loose) => {
        const seen = seenBy(ctx);
        ctx.set("location", `${seen.protocol}://${seen.hostname}/orders/1`);
        ctx.body = seen;
      }) as never,
    );
    return app.callback();
  },
};

test.each(Object.entries(apps))("%s", async (_name, make) => {
  const service = httpService();
  const { url, close } = await listen(await make(service));
  try {
    const key = newKey();
    const call = (addresses: string, host = "shop.example") =>
      send(url, {
        key,
        headers: [
          ["X-Forwarded-For", addresses],
          ["X-Forwarded-Proto", "https"],
          ["X-Forwarded-Host", host],
        ],
      });
    const first = await call("203.0.113.7, 198.51.100.1");
    const origin = { protocol: "https", hostname: "shop.example" };
    expect(first.json()).toEqual({ ip: "203.0.113.7", ips: ["203.0.113.7", "198.51.100.1"], ...origin });
    expect(first.header("location")).toBe("https://shop.example/orders/1");
    const retry = await call("203.0.113.8");
    expect([retry.header("idempotent-replayed"), retry.body, retry.header("location")]).toEqual([
      "true",
      first.body,
      "https://shop.example/orders/1",
    ]);
    const other = await call("203.0.113.7", "other.example");
    expect([other.header("idempotent-replayed"), other.json().hostname]).toEqual([null, "other.example"]);
    expect(service.reported()).toEqual([]);
  } finally {
    await close();
  }
});

test("are those that the registry names", () => {
  expect(Object.keys(apps).toSorted()).toEqual(variantsWith("trustedProxy").toSorted());
});
