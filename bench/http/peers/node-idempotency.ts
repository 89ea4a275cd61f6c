/** node-idempotency over its Redis adapter, used as its own Express plug-in uses it: the answer is stored behind the caller's back. */
import { Idempotency } from "@node-idempotency/core";
import { RedisStorageAdapter } from "@node-idempotency/storage-adapter-redis";
import type { RequestHandler } from "express";
import { redisUrl } from "../services.ts";

export async function guardWithNodeIdempotency(): Promise<RequestHandler> {
  const storage = new RedisStorageAdapter({ url: redisUrl() });
  await storage.connect();
  const idempotency = new Idempotency(storage);
  return async (req, res, next) => {
    const request = { headers: req.headers, path: req.url, method: req.method, body: req.body };
    const stored = await idempotency.onRequest(request);
    if (stored?.body !== undefined) {
      res.status(Number(stored.additional?.statusCode)).send(stored.body);
      return;
    }
    const { send } = res;
    res.send = (body: unknown) => {
      // `res.json` calls `send` with a value, which calls itself again with the text.
      const isText = typeof body === "string";
      const kept = isText ? JSON.parse(body) : body;
      void idempotency.onResponse(request, { body: kept, additional: { statusCode: res.statusCode } });
      res.send = send;
      return send.call(res, body);
    };
    next();
  };
}
