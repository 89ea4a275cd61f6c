import type { RequestListener } from "node:http";
import express, { type ErrorRequestHandler, type Request, type Response } from "express";
import { expressProtect } from "../../../../packages/latchkey/src/http/express/express.ts";
import { limit, type MakeListener, nodeHandlers, type Parts, single } from "../../../docs/handlers.ts";

export const services: Readonly<Record<string, MakeListener>> = { express: onExpress };

function onExpress({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = nodeHandlers[row];
  if (handle === null) return null;
  const protect = expressProtect(service.latchkey, single);
  const app = express().use((_req, res, next) => {
    res.set("X-Request", nextRequest());
    next();
  });
  const handler = protect(service.operation(limit), (req: Request, res: Response) => {
    ran();
    return handle(req, res);
  });
  const answerFailure: ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).end("failed");
  return app.post("/run", handler).use(answerFailure);
}
