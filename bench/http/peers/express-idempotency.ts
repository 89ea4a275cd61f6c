/**
 * express-idempotency over Redis. It ships an adapter for memory only, which searches a list and forgets on restart, so
 * its interface is filled in here in the shortest way: one SET NX, one GET and one SET.
 */
import type { RequestHandler } from "express";
import {
  getSharedIdempotencyService,
  type IdempotencyResource,
  type IIdempotencyDataAdapter,
  idempotency,
} from "express-idempotency";
import { createClient } from "redis";
import { redisUrl } from "../services.ts";

const daySeconds = 86_400;

export async function guardWithExpressIdempotency(handler: RequestHandler): Promise<RequestHandler[]> {
  const client = await createClient({ url: redisUrl() }).connect();
  const expiration = { type: "EX", value: daySeconds } as const;
  const dataAdapter: IIdempotencyDataAdapter = {
    async findByIdempotencyKey(key) {
      const text = await client.get(key);
      return text === null ? null : (JSON.parse(text) as IdempotencyResource);
    },
    async create(resource) {
      const set = await client.set(resource.idempotencyKey, JSON.stringify(resource), {
        condition: "NX",
        expiration,
      });
      if (set === null) throw new Error("Duplicate");
    },
    async update(resource) {
      await client.set(resource.idempotencyKey, JSON.stringify(resource), { expiration });
    },
    async delete(key) {
      await client.del(key);
    },
  };
  const middleware: RequestHandler = idempotency({ dataAdapter });
  return [
    middleware,
    // It calls `next` after a replay too; its documentation tells handlers to look first.
    (req, res, next) => (getSharedIdempotencyService().isHit(req) ? undefined : handler(req, res, next)),
  ];
}
