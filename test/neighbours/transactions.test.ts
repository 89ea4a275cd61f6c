/** Neighbours around routes whose handlers write through transactions of Postgres. */
import type { RequestListener } from "node:http";
import fastifyCompress from "@fastify/compress";
import fastifyEtag from "@fastify/etag";
import fastifyHelmet from "@fastify/helmet";
import { getRequestListener } from "@hono/node-server";
import compression from "compression";
import express from "express";
import fastify from "fastify";
import helmet from "helmet";
import { Hono } from "hono";
import { compress } from "hono/compress";
import { etag } from "hono/etag";
import { secureHeaders } from "hono/secure-headers";
import Koa from "koa";
import koaCompress from "koa-compress";
import koaHelmet from "koa-helmet";
import { beforeAll, describe, expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { createLatchkey, type Latchkey } from "../../packages/latchkey/src/latchkey.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { openPool, prepareDatabase, type TestTx } from "../postgres/harness.ts";
import { listen } from "../support/listen.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { sample } from "../support/thorough.ts";

type Loose = ReturnType<JSON["parse"]>;
type Make = (latchkey: Latchkey<TestTx>, operation: Loose) => RequestListener | Promise<RequestListener>;

const one = { singleTenant: true } as const;

/** The first run fails when it has written and answered half: nothing of it may be left. */
async function write({ tx }: Loose, runs: number): Promise<object> {
  await tx.query("insert into business values ($1)", [`run ${runs}`]);
  // A serialization failure: the transaction runs again.
  if (runs === 1) await tx.query("do $$ begin raise exception using errcode = '40001'; end $$");
  return { runs, padding: "x".repeat(2_000) };
}

const apps: Readonly<Record<string, Make>> = {
  express: (latchkey, operation) => {
    let runs = 0;
    const handler = async (_req: Loose, res: Loose, context: Loose) => {
      res.append("Link", `</${++runs}>`);
      res.status(201).json(await write(context, runs));
    };
    return express()
      .use(helmet(), compression())
      .post("/run", expressProtect(latchkey, one)(operation, handler));
  },
  fastify: async (latchkey, operation) => {
    let runs = 0;
    const app: Loose = fastify();
    const protect: Loose = fastifyProtect(app, latchkey, one);
    await app.register(fastifyHelmet);
    await app.register(fastifyEtag);
    await app.register(fastifyCompress);
    const handler = async (_request: Loose, reply: Loose, context: Loose) => {
      reply.header("Link", `</${++runs}>`).code(201);
      return write(context, runs);
    };
    app.post("/run", protect(operation, handler));
    await app.ready();
    return (req, res) => void app.routing(req, res);
  },
  koa: (latchkey, operation) => {
    let runs = 0;
    const handler = async (ctx: Loose, context: Loose) => {
      ctx.append("Link", `</${++runs}>`);
      ctx.status = 201;
      ctx.body = await write(context, runs);
    };
    const route: Loose = koaProtect(latchkey, one)(operation, handler);
    return new Koa().use(koaHelmet()).use(koaCompress()).use(route).callback();
  },
  hono: (latchkey, operation) => {
    let runs = 0;
    const handler = async (c: Loose, context: Loose) => {
      c.header("Link", `</${++runs}>`);
      return c.json(await write(context, runs), 201);
    };
    const app = new Hono().use(secureHeaders(), etag(), compress());
    return getRequestListener(app.post("/run", honoProtect(latchkey, one)(operation, handler)).fetch);
  },
};

forEachPostgres((_version, database) => {
  beforeAll(() => prepareDatabase(database.url));

  describe.each(sample(Object.entries(apps), 1))("%s", (_name, make) => {
    test("a transaction that runs again leaves one row and one answer, replayed alike", async () => {
      const pool = openPool(database.url, { max: 4 });
      await pool.query("delete from business");
      const store = postgresStore({ pool });
      const latchkey = createLatchkey({ store });
      const { url, close } = await listen(await make(latchkey as Loose, latchkey.operation("run")));
      try {
        const call = { key: newKey(), headers: [["Accept-Encoding", "gzip"]] } as const;
        const first = await send(url, call);
        expect([first.status, first.header("link"), first.header("content-encoding")]).toEqual([
          201,
          "</2>",
          "gzip",
        ]);
        const retry = await send(url, call);
        expect([retry.status, retry.header("idempotent-replayed")]).toEqual([201, "true"]);
        expect(retry.body.equals(first.body)).toBe(true);
        const own = ["date", "idempotent-replayed", "transfer-encoding", "content-length"];
        const lines = (answer: typeof first) => answer.lines.filter(([name]) => !own.includes(name)).sort();
        expect(lines(retry)).toEqual(lines(first));
        expect((await pool.query("select * from business")).rows).toHaveLength(1);
      } finally {
        await close();
        await latchkey.close({ timeoutMs: 5_000 });
        await pool.end();
      }
    });
  });
});
