/** Uploads through the multipart parsers that services use, before Latchkey and behind it, on every adapter. */
import "reflect-metadata";
import { mkdtempSync, readFileSync } from "node:fs";
import type { IncomingMessage, RequestListener } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import fastifyMultipart from "@fastify/multipart";
import { getRequestListener } from "@hono/node-server";
import { Controller, Module, Post, Req, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { FileInterceptor } from "@nestjs/platform-express";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import busboy from "busboy";
import express from "express";
import express4 from "express4";
import fastify from "fastify";
import formidable from "formidable";
import { Hono } from "hono";
import Koa from "koa";
import multer from "multer";
import { afterEach, describe, expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { newKey } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { type HttpService, httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";
import { sendUpload } from "./multipart.ts";

/** Node's own, without the types of each package: what is tested is what they do. */
type Loose = ReturnType<JSON["parse"]>;
// Their types give Node's own requests properties that Express's types have with other types.
const require = createRequire(import.meta.url);
const koaMulter: Loose = require("@koa/multer");
const { koaBody }: Loose = require("koa-body");
const fileUpload: Loose = require("express-fileupload");
const connectMultiparty: Loose = require("connect-multiparty");
const multiparty: Loose = require("multiparty");

const all = { singleTenant: true } as const;
const parsed = { singleTenant: true, fingerprint: "parsed" } as const;
const folder = () => mkdtempSync(join(tmpdir(), "latchkey-uploads-"));
const fault = (error: Loose, _req: Loose, res: Loose, _next: Loose) =>
  res.status(500).json({ code: error.code, message: error.message });

/** Middleware of Express before the protected handler, or in it. */
function onExpress(
  make: () => Loose,
  read: Loose,
  options: typeof all | typeof parsed,
  where: "before" | "inside",
  framework: Loose = express,
) {
  return ({ latchkey, lease }: HttpService): RequestListener => {
    const middleware = make();
    const answer = async (req: Loose, res: Loose) => res.status(201).send(await read(req));
    const protect = expressProtect(latchkey, options);
    const inside = (req: Loose, res: Loose) =>
      new Promise((resolve, reject) =>
        middleware(req, res, (error: unknown) => (error ? reject(error) : resolve(answer(req, res)))),
      );
    const handler = protect(lease(), where === "inside" ? inside : answer);
    return framework()
      .post("/run", ...(where === "before" ? [middleware] : []), handler)
      .use(fault);
  };
}

async function onFastify({ latchkey, lease }: HttpService, plugin: Loose, read: Loose, options: Loose = all) {
  const app = fastify();
  await app.register(fastifyMultipart, plugin);
  const protect = fastifyProtect(app as Loose, latchkey, options);
  app.post(
    "/run",
    protect(lease(), async (request, reply) => reply.code(201).send(await read(request))) as Loose,
  );
  await app.ready();
  return app.routing as RequestListener;
}

function onKoa(before: Loose[], read: Loose, options: typeof all | typeof parsed) {
  return ({ latchkey, lease }: HttpService): RequestListener => {
    const app = new Koa();
    app.silent = true;
    for (const middleware of before) app.use(middleware);
    app.use(
      koaProtect(latchkey, options)(lease(), async (ctx) => {
        ctx.status = 201;
        ctx.body = await read(ctx);
      }) as Loose,
    );
    return app.callback();
  };
}

async function onNest({ latchkey, lease }: HttpService, order: "before" | "behind", options: Loose) {
  class Routes {
    run(req: Loose): string {
      return `${req.body.note} ${req.file.buffer}`;
    }
  }
  const { prototype } = Routes;
  const method = Object.getOwnPropertyDescriptor(prototype, "run") ?? {};
  Req()(prototype, "run", 0);
  const both = [nestProtect(latchkey, options)(lease()), FileInterceptor("file")];
  UseInterceptors(...((order === "before" ? both.reverse() : both) as Loose[]))(prototype, "run", method);
  Post("run")(prototype, "run", method);
  Controller()(Routes);
  class Root {}
  Module({ controllers: [Routes] })(Root);
  const app = await NestFactory.create(Root, { rawBody: true, logger: false });
  await app.init();
  return app.getHttpAdapter().getInstance() as RequestListener;
}

async function onNestWithFastify(
  { latchkey, lease }: HttpService,
  plugin: Loose,
  read: Loose,
  options: Loose,
) {
  class Routes {
    run(req: Loose): Promise<string> {
      return read(req);
    }
  }
  const { prototype } = Routes;
  const method = Object.getOwnPropertyDescriptor(prototype, "run") ?? {};
  Req()(prototype, "run", 0);
  UseInterceptors(nestProtect(latchkey, options)(lease()) as Loose)(prototype, "run", method);
  Post("run")(prototype, "run", method);
  Controller()(Routes);
  class Root {}
  Module({ controllers: [Routes] })(Root);
  const app = await NestFactory.create<NestFastifyApplication>(Root, new FastifyAdapter(), {
    rawBody: true,
    logger: false,
  });
  await app.register(fastifyMultipart as Loose, plugin);
  await app.init();
  const instance = app.getHttpAdapter().getInstance();
  await instance.ready();
  return instance.routing as unknown as RequestListener;
}

/** What a handler does that reads the stream itself. */
function readByBusboy(req: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const seen: string[] = [];
    const parser = busboy({ headers: req.headers });
    parser.on("field", (_name, value) => seen.push(value));
    parser.on("file", (_name, stream) => stream.on("data", (chunk) => seen.push(String(chunk))));
    parser.on("close", () => resolve(seen.join(" "))).on("error", reject);
    req.pipe(parser);
  });
}

async function readByFormidable(req: IncomingMessage): Promise<string> {
  const [fields, files] = await formidable({ uploadDir: folder() }).parse(req);
  return `${fields.note} ${readFileSync(files.file?.[0]?.filepath ?? "", "utf8")}`;
}

const ofMulter = ({ body, file }: Loose) => `${body.note} ${file.buffer ?? readFileSync(file.path)}`;
const ofFileUpload = ({ body, files: { file } }: Loose) =>
  `${body.note} ${file.tempFilePath ? readFileSync(file.tempFilePath) : file.data}`;
const ofForm = async (form: FormData) => `${form.get("note")} ${await (form.get("file") as File).text()}`;

/** multiparty as its documentation uses it, in middleware that leaves what it made. */
const byMultiparty = () => (req: Loose, _res: Loose, next: Loose) =>
  new multiparty.Form({ uploadDir: folder() }).parse(req, (error: unknown, fields: Loose, files: Loose) => {
    req.body = fields;
    req.files = files;
    next(error);
  });
const ofMultiparty = ({ body, files: { file } }: Loose) =>
  `${body.note} ${readFileSync([file].flat()[0].path)}`;

/** Each answers with the note and the file. */
const services: Record<string, (service: HttpService) => RequestListener | Promise<RequestListener>> = {
  "multer in memory before Express": onExpress(() => multer().single("file"), ofMulter, parsed, "before"),
  "multer on disk before Express": onExpress(
    () => multer({ dest: folder() }).single("file"),
    ofMulter,
    parsed,
    "before",
  ),
  "multer before Express 4, several files": onExpress(
    () => multer().array("file"),
    ({ body, files }: Loose) => ofMulter({ body, file: files[0] }),
    parsed,
    "before",
    express4,
  ),
  "multer inside Express": onExpress(() => multer().single("file"), ofMulter, all, "inside"),
  "multer inside Express 4": onExpress(() => multer().single("file"), ofMulter, all, "inside", express4),
  "express-fileupload before Express": onExpress(() => fileUpload(), ofFileUpload, parsed, "before"),
  "express-fileupload with files before Express": onExpress(
    () => fileUpload({ useTempFiles: true, tempFileDir: folder() }),
    ofFileUpload,
    parsed,
    "before",
  ),
  "connect-multiparty before Express": onExpress(
    () => connectMultiparty({ uploadDir: folder() }),
    ofMultiparty,
    parsed,
    "before",
  ),
  "multiparty before Express": onExpress(byMultiparty, ofMultiparty, parsed, "before"),
  "busboy inside Express": ({ latchkey, lease }) =>
    express().post(
      "/run",
      expressProtect(latchkey, all)(lease(), async (req, res) =>
        res.status(201).send(await readByBusboy(req)),
      ),
    ),
  "koa-body before Koa": onKoa(
    [
      koaBody({
        multipart: true,
        formidable: { uploadDir: folder(), allowEmptyFiles: true, minFileSize: 0 },
      }),
    ],
    ({ request }: Loose) => `${request.body.note} ${readFileSync(request.files.file.filepath)}`,
    parsed,
  ),
  "@koa/multer before Koa": onKoa(
    [koaMulter().single("file")],
    ({ request }: Loose) => ofMulter(request),
    parsed,
  ),
  "busboy inside Koa": onKoa([], ({ req }: Loose) => readByBusboy(req), all),
  "@fastify/multipart, parts": (service) =>
    onFastify(service, {}, async (request: Loose) => {
      const file = await request.file();
      const content = await file.toBuffer();
      return `${file.fields.note.value} ${content}`;
    }),
  "@fastify/multipart, attached, parsed": (service) =>
    onFastify(
      service,
      { attachFieldsToBody: true },
      async ({ body }: Loose) => `${body.note.value} ${await body.file.toBuffer()}`,
      parsed,
    ),
  "@fastify/multipart, attached": (service) =>
    onFastify(
      service,
      { attachFieldsToBody: true },
      async ({ body }: Loose) => `${body.note.value} ${await body.file.toBuffer()}`,
    ),
  "@fastify/multipart, attached as values, parsed": (service) =>
    onFastify(
      service,
      { attachFieldsToBody: "keyValues" },
      ({ body }: Loose) => `${body.note} ${body.file}`,
      parsed,
    ),
  "Hono, whose middleware has read the form": ({ latchkey, lease }) => {
    const app = new Hono();
    app.use(async (c, next) => {
      await c.req.parseBody();
      await next();
    });
    app.post(
      "/run",
      honoProtect(latchkey, parsed)(lease(), async (c: Loose) =>
        c.text(await ofForm(await c.req.formData()), 201),
      ) as Loose,
    );
    return getRequestListener(app.fetch);
  },
  Hono: ({ latchkey, lease }) => {
    const app = new Hono();
    const handler = honoProtect(latchkey, all)(lease(), async (c: Loose) => {
      const { note, file } = await c.req.parseBody();
      return c.text(`${note} ${await (file as File).text()}`, 201);
    });
    return getRequestListener(app.post("/run", handler as Loose).fetch);
  },
  "busboy on Hono, with Node's message": ({ latchkey, lease }) => {
    const handler = honoProtect(latchkey, all)(lease(), async (c: Loose) =>
      c.text(await readByBusboy(c.env.incoming), 201),
    );
    return getRequestListener(new Hono().post("/run", handler as Loose).fetch);
  },
  Fetch: ({ latchkey, lease }) => {
    const handle = fetchProtect(latchkey, all)(lease(), async (request) => {
      return new Response(await ofForm(await request.formData()), { status: 201 });
    });
    return getRequestListener((request) => handle(request));
  },
  "formidable on node:http": ({ latchkey, lease }) => {
    const handle = nodeProtect(latchkey, all)(lease(), async (req, res) => {
      res.writeHead(201).end(await readByFormidable(req));
    });
    return (req, res) => void handle(req, res).catch(() => res.destroy());
  },
  "@fastify/multipart on Nest, parts": (service) =>
    onNestWithFastify(
      service,
      {},
      async (request: Loose) => {
        const file = await request.file();
        const content = await file.toBuffer();
        return `${file.fields.note.value} ${content}`;
      },
      all,
    ),
  "@fastify/multipart on Nest, attached, parsed": (service) =>
    onNestWithFastify(
      service,
      { attachFieldsToBody: true },
      async ({ body }: Loose) => `${body.note.value} ${await body.file.toBuffer()}`,
      parsed,
    ),
  "FileInterceptor behind Latchkey on Nest": (service) => onNest(service, "behind", all),
  "FileInterceptor before Latchkey on Nest": (service) => onNest(service, "before", parsed),
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(make: (service: HttpService) => RequestListener | Promise<RequestListener>) {
  const { url, close } = await listen(await make(httpService()));
  closing.push(close);
  return url;
}

describe.each(Object.entries(services))("%s", (_name, make) => {
  test("a retry with a boundary of its own gets the first answer, another file or field does not", async () => {
    const url = await start(make);
    const key = newKey();
    const first = await sendUpload(url, { key });
    expect([first.status, first.body.toString()]).toEqual([201, "x AAA"]);
    for (const boundary of ["first", "second"]) {
      const again = await sendUpload(url, { key, boundary });
      expect([again.status, again.body.toString()]).toEqual([201, "x AAA"]);
      expect(again.header("idempotent-replayed")).toBe("true");
    }
    const others = [
      { file: "BBB" },
      { file: "" },
      { note: "y" },
      { filename: "b.txt" },
      { type: "text/html" },
    ];
    for (const other of others) {
      const answer = await sendUpload(url, { key, ...other });
      expect([answer.status, answer.json().code], JSON.stringify(other)).toEqual([422, "key-misuse"]);
    }
  });
});

test.each([
  "connect-multiparty before Express",
  "multiparty before Express",
  "multer in memory before Express",
])("%s: files whose parts have no media type are distinguished, too", async (name) => {
  const url = await start(services[name] ?? expect.fail());
  const upload = { key: newKey(), type: null };
  for (const replayed of [null, "true"]) {
    const answer = await sendUpload(url, upload);
    expect([answer.body.toString(), answer.header("idempotent-replayed")]).toEqual(["x AAA", replayed]);
  }
  expect((await sendUpload(url, { ...upload, file: "BBB" })).json().code).toBe("key-misuse");
});

test("files that a storage of the app's own has taken cannot be distinguished, and the error says so", async () => {
  const storage = {
    _handleFile: (_req: Loose, file: Loose, done: Loose) =>
      void text(file.stream).then((content) => done(null, { location: "far away", size: content.length })),
    _removeFile: (_req: Loose, _file: Loose, done: Loose) => done(null),
  };
  const url = await start(onExpress(() => multer({ storage }).single("file"), ofMulter, parsed, "before"));
  const answer = await sendUpload(url);
  expect(answer.json()).toMatchObject({
    code: "body-consumed",
    message: expect.stringContaining("inside the protected handler"),
  });
});

test.each<[string, (seen: { body: Loose; files: Loose }) => object]>([
  ["files in a Map", ({ body, files }) => ({ body, files: new Map(Object.entries(files)) })],
  ["nothing in `body` or `files`", ({ files }) => ({ body: {}, contents: files })],
  ["texts for files", ({ body }) => ({ body, files: { file: "kept" } })],
  ["the web's files", ({ body }) => ({ body, files: [new File(["AAA"], "a.txt")] })],
])("a parser of the app's own that leaves %s is refused", async (_what, leave) => {
  const middleware = () => {
    const parse = byMultiparty();
    return (req: Loose, res: Loose, next: Loose) =>
      parse(req, res, () => {
        const { body, files } = req;
        next(void Object.assign(req, { body: undefined, files: undefined }, leave({ body, files })));
      });
  };
  const url = await start(onExpress(middleware, ({ body }: Loose) => String(body?.note), parsed, "before"));
  const { code, message } = (await sendUpload(url)).json();
  expect(code).toBe("body-consumed");
  expect(message).toContain("inside the protected handler");
});

test("a multipart parser before Latchkey is named as the cause, with both remedies", async () => {
  const url = await start(onExpress(() => multer().single("file"), ofMulter, all, "before"));
  const { code, message } = (await sendUpload(url)).json();
  expect(code).toBe("body-consumed");
  expect(message).toMatch(/FileInterceptor.*fingerprint: "parsed"/u);
});
