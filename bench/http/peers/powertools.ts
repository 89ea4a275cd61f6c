/** AWS Powertools' function wrapper over its cache layer, inside an Express handler. */
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";
import type { Request, RequestHandler } from "express";
import { createClient } from "redis";
import { redisUrl } from "../services.ts";

export async function guardWithPowertools(
  answer: (req: Request) => Promise<object>,
): Promise<RequestHandler> {
  const client = await createClient({ url: redisUrl() }).connect();
  const config = new IdempotencyConfig({});
  const persistenceStore = new CachePersistenceLayer({ client });
  const answerOnce = makeIdempotent((_key: string, req: Request) => answer(req), {
    persistenceStore,
    config,
  });
  return async (req, res) => {
    res.status(201).json(await answerOnce(req.get("idempotency-key") ?? "", req));
  };
}
