import type { RequestListener } from "node:http";
import express, { type Express, type Request } from "express";
import { expressProtect, keepRawBody } from "latchkey/express";
import { fixedAnswer, placeOrder, writeOrder } from "./jobs.ts";
import { openOrders, openPool, openReplays } from "./services.ts";
import type { Guard, Job } from "./subject.ts";

const tenant = (req: Request) => req.get("x-tenant");

export async function startExpress(job: Job, guard: Guard): Promise<RequestListener> {
  const app = express();
  switch (guard) {
    case "none":
    case "by-hand":
    case "by-hand-memory":
    case "node-idempotency":
    case "express-idempotency":
    case "powertools":
    case "dbos":
      app.use(express.json());
      await handleWithoutLatchkey(app, job, guard);
      return app;
    case "latchkey":
    case "latchkey-optimistic":
    case "latchkey-memory":
      app.use(express.json({ verify: keepRawBody }));
      if (job === "order") protectOrders(app, guard);
      else protectReplays(app, guard);
      return app;
    default:
      return guard satisfies never;
  }
}

function protectOrders(app: Express, guard: Guard): void {
  const { latchkey, operation } = openOrders(guard);
  const protect = expressProtect(latchkey, { tenant });
  app.post(
    "/order",
    protect(operation, async (req, res, { tx }) => {
      res.status(201).json(await writeOrder(tx, req.body));
    }),
  );
}

function protectReplays(app: Express, guard: Guard): void {
  const { latchkey, operation } = openReplays(guard);
  const protect = expressProtect(latchkey, { tenant });
  app.post(
    "/replay",
    protect(operation, (_req, res) => {
      res.status(201).json(fixedAnswer());
    }),
  );
}

type WithoutLatchkey = Exclude<Guard, `latchkey${string}`>;

/** The plain endpoint, and the same one behind the middleware of a peer; peers are loaded by their own servers alone. */
async function handleWithoutLatchkey(app: Express, job: Job, guard: WithoutLatchkey): Promise<void> {
  const pool = openPool();
  const answer = async (req: Request) => (job === "order" ? placeOrder(pool, req.body) : fixedAnswer());
  const handler: express.RequestHandler = async (req, res) => {
    res.status(201).json(await answer(req));
  };
  switch (guard) {
    case "none":
      app.post(`/${job}`, handler);
      return;
    case "by-hand":
    case "by-hand-memory": {
      const { answerByHand } = await import("./peers/by-hand.ts");
      const answerOnce = answerByHand(job, guard);
      app.post(`/${job}`, async (req, res) => {
        const request = { tenant: tenant(req), key: req.get("idempotency-key"), body: req.body };
        const { status, text } = await answerOnce(request);
        res.status(status).type("json").send(text);
      });
      return;
    }
    case "node-idempotency": {
      const { guardWithNodeIdempotency } = await import("./peers/node-idempotency.ts");
      app.post(`/${job}`, await guardWithNodeIdempotency(), handler);
      return;
    }
    case "express-idempotency": {
      const { guardWithExpressIdempotency } = await import("./peers/express-idempotency.ts");
      app.post(`/${job}`, ...(await guardWithExpressIdempotency(handler)));
      return;
    }
    case "powertools": {
      const { guardWithPowertools } = await import("./peers/powertools.ts");
      app.post(`/${job}`, await guardWithPowertools(answer));
      return;
    }
    case "dbos": {
      const { handleWithDbos } = await import("./peers/dbos.ts");
      app.post(`/${job}`, await handleWithDbos(job, tenant));
      return;
    }
    default:
      return guard satisfies never;
  }
}
