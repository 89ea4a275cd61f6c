import express, { type ErrorRequestHandler } from "express";
import {
  expressProtect,
  expressRecord,
  expressServe,
  expressStatus,
} from "../../../../packages/latchkey/src/http/express/express.ts";
import {
  amountIn,
  breakResponse,
  type SmallServices,
  single,
  statusOptions,
} from "../../../http/small-services.ts";

/** Requests and responses, whose types are not looked at here. */
type Loose = ReturnType<JSON["parse"]>;

export const services: SmallServices = {
  served({ latchkey, operation }) {
    const serve = expressServe(latchkey, single);
    let requests = 0;
    const app = express().use((_req, res, next) => {
      res.set("X-Request", String(++requests));
      next();
    });
    app.post(
      "/run",
      serve(operation, (req) => ({ amount: amountIn(req.body) })),
    );
    const answer: ErrorRequestHandler = (error, _req, res, _next) => {
      res.status(error.status ?? 500).end("failed");
    };
    return app.use(answer);
  },
  status({ latchkey, operation }) {
    let requests = 0;
    const router = express.Router();
    router.post(
      "/run",
      expressServe(latchkey, statusOptions)(operation, () => null as never),
    );
    router.get("/operations/:id", expressStatus(latchkey, statusOptions));
    const answer: ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).end("failed");
    return express()
      .use((_req, res, next) => {
        res.set({ "X-Request": String(++requests), "Cache-Control": "public" });
        next();
      })
      .use("/v1", router)
      .use(answer);
  },
  notStarted: {
    Express: ({ latchkey, lease }, run) => {
      const handler = expressProtect(latchkey, single)(lease(), (_req, res) => {
        run();
        res.status(201).end();
      });
      const breaking = (req: Loose, res: Loose, next: Loose) => next(breakResponse(req, res));
      return express()
        .use(breaking)
        .post("/run", handler as Loose);
    },
    "Express, recorded": ({ latchkey, lease }, run) => {
      const breaking = (req: Loose, res: Loose, next: Loose) => next(breakResponse(req, res));
      return express()
        .use(breaking)
        .use(expressRecord(latchkey, single)(lease()))
        .post("/run", (_req, res) => {
          run();
          res.status(201).end();
        });
    },
  },
  routed: ({ latchkey, lease }, options) =>
    express().post(
      "/items/*rest",
      expressProtect(latchkey, single)(lease(options), (_req, res) => void res.end("done")),
    ),
};
