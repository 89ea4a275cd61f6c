/** Servers on other people's published packages, used as their documents say. */
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";
import { Idempotency } from "@node-idempotency/core";
import { MemoryStorageAdapter } from "@node-idempotency/storage-adapter-memory";
import express, { type Express, type Request, type RequestHandler } from "express";
import { getSharedIdempotencyService, type IIdempotencyDataAdapter, idempotency } from "express-idempotency";
import { createClient } from "redis";

export interface PeerServer {
  readonly app: Express;
  close(): Promise<void>;
}

/** Writes an order. A handler's own work takes a turn of the event loop, as one with a database does. */
const order: RequestHandler = async (req, res) => {
  await new Promise((resolve) => setImmediate(resolve));
  const id = randomUUID();
  res.status(201).location(`/orders/${id}`).json({ id, amount: req.body.amount });
};

function expressIdempotencyApp(dataAdapter?: IIdempotencyDataAdapter): Express {
  const app = express().use(express.json());
  app.use(idempotency(dataAdapter === undefined ? {} : { dataAdapter }));
  // It calls `next` after a replay, too: its documents tell handlers to look first.
  app.post("/orders", (req, res, next) =>
    getSharedIdempotencyService().isHit(req) ? undefined : order(req, res, next),
  );
  return app;
}

export async function expressIdempotencyInMemory(): Promise<PeerServer> {
  return { app: expressIdempotencyApp(), close: async () => {} };
}

export async function expressIdempotencyOnRedis(redisUrl: string): Promise<PeerServer> {
  // Its types say that it has a default export; as CommonJS it has one only for require.
  const { default: RedisAdapter }: typeof import("express-idempotency-redis-adapter") = createRequire(
    import.meta.url,
  )("express-idempotency-redis-adapter");
  const adapter = new RedisAdapter({ connectionConfig: { url: redisUrl } });
  await adapter.connect();
  // Its types differ from those of the package under `exactOptionalPropertyTypes`.
  const dataAdapter: IIdempotencyDataAdapter = {
    create: (resource) => adapter.create(resource),
    update: (resource) => adapter.update(resource),
    delete: (key) => adapter.delete(key),
    async findByIdempotencyKey(key) {
      const found = await adapter.findByIdempotencyKey(key);
      if (found === null) return null;
      const { response, ...resource } = found;
      return response === undefined ? resource : { ...resource, response };
    },
  };
  return { app: expressIdempotencyApp(dataAdapter), close: () => adapter.disconnect() };
}

/** As its own plug-ins do: the answer is stored when the handler has given it to the framework. */
export async function nodeIdempotency(): Promise<PeerServer> {
  const guard = new Idempotency(new MemoryStorageAdapter());
  const app = express().use(express.json());
  app.post("/orders", async (req, res, next) => {
    const request = { headers: req.headers, path: req.path, method: req.method, body: req.body };
    const stored = await guard.onRequest(request);
    if (stored !== undefined) {
      res.status(Number(stored.additional?.statusCode)).json(stored.body);
      return;
    }
    const { json } = res;
    res.json = (body: unknown) => {
      void guard.onResponse(request, { body, additional: { statusCode: res.statusCode } });
      return json.call(res, body);
    };
    await order(req, res, next);
  });
  app.use(statusOfError);
  return { app, close: async () => {} };
}

/** Its errors have codes; these statuses are those of its plug-ins. */
const statusOfError: express.ErrorRequestHandler = (error, _req, res, _next) => {
  const statuses: Readonly<Record<string, number>> = {
    IDEMPOTENCY_KEY_LEN_EXEEDED: 400,
    IDEMPOTENCY_KEY_MISSING: 400,
    IDEMPOTENCY_FINGERPRINT_MISSMATCH: 422,
    REQUEST_IN_PROGRESS: 409,
  };
  res.status(statuses[error.code] ?? 500).json({ error: error.code ?? error.name });
};

/** As behind API Gateway, where the key comes from the header. */
export async function powertools(redisUrl: string): Promise<PeerServer> {
  const client = await createClient({ url: redisUrl }).connect();
  const config = new IdempotencyConfig({
    eventKeyJmesPath: 'headers."idempotency-key"',
    throwOnNoIdempotencyKey: true,
  });
  const createOrder = makeIdempotent(
    async ({ body }: Pick<Request, "headers" | "body">) => {
      await new Promise((resolve) => setImmediate(resolve));
      return { id: randomUUID(), amount: body.amount };
    },
    { persistenceStore: new CachePersistenceLayer({ client }), config },
  );
  const app = express().use(express.json());
  app.post("/orders", async (req, res) => {
    const { id, amount } = await createOrder({ headers: req.headers, body: req.body });
    res.status(201).location(`/orders/${id}`).json({ id, amount });
  });
  app.use(statusOfPowertools);
  return {
    app,
    async close() {
      await client.close();
    },
  };
}

const statusOfPowertools: express.ErrorRequestHandler = (error, _req, res, _next) => {
  const statuses: Readonly<Record<string, number>> = {
    IdempotencyAlreadyInProgressError: 409,
    IdempotencyKeyError: 400,
  };
  const { name } = error.cause instanceof Error ? error.cause : error;
  res.status(statuses[name] ?? 500).json({ error: name });
};
