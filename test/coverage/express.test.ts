/** Express 5 and 4: mounted routers, middleware before and after, several routes with one path. */
import express, { type NextFunction, type Request, type Response } from "express";
import express4 from "express4";
import { describe, expect, test } from "vitest";
import {
  expressProtect,
  expressRecord,
  expressServe,
  keepRawBody,
} from "../../packages/latchkey/src/http/express/express.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { audited, expectTruth, type KnownRoute, openWorld, type World } from "./world.ts";

type MakeExpress = typeof express;

function handlersOf(world: World) {
  const { latchkey, options, create } = world;
  const [protect, record] = [expressProtect(latchkey, options), expressRecord(latchkey, options)];
  const answer = (req: Request, res: Response) => {
    world.ran(`${req.method} ${req.originalUrl}`);
    res.json({ done: true });
  };
  return {
    answer,
    protect: () => protect(create, (req: Request, res: Response) => answer(req, res)),
    record: () => record(create),
    serve: expressServe(latchkey, options)(world.serve, (req) => ({ route: req.originalUrl })),
    handOn: (_req: Request, _res: Response, next: NextFunction) => next(),
  };
}

function appOf(make: MakeExpress, world: World) {
  const { answer, protect, record, serve, handOn } = handlersOf(world);
  const app = make();
  app.post(
    "/node",
    nodeProtect(world.latchkey, world.options)(world.create, async (req, res) => {
      world.ran(req.url ?? "");
      res.end();
    }),
  );
  app.use(make.json({ verify: keepRawBody }));
  app.get("/read", answer);
  app.post("/recorded/early", answer);
  app.use("/recorded", record());
  app.post("/recorded/late", answer);
  app.put("/recorded/late", answer);
  app.post("/recordedless", answer);
  app.post("/payments", handOn, protect());
  app.post("/served", serve);
  app.patch("/payments/:id", answer);
  app.post("/answered", answer);
  app.post("/answered", protect());
  app.post("/handed", handOn);
  app.post("/handed", protect());
  app.all("/any", answer);
  app.all("/any-protected", protect());
  app.route("/route").post(protect()).put(answer);
  app.post(["/one", "/two"], protect());
  const orders = make.Router();
  orders.post("/plain/:id", answer);
  orders.use(record());
  orders.post("/", answer);
  orders.delete("/:id", answer);
  app.use("/api/:version/orders", orders);
  const both = make.Router();
  both.post("/z", answer);
  app.use(["/p", "/q.r"], both);
  return app;
}

const known: readonly KnownRoute[] = [
  { route: "POST /node", by: "orders.create" },
  { route: "POST /recorded/early", by: null },
  { route: "POST /recorded/late", by: "orders.create" },
  { route: "PUT /recorded/late", by: null },
  { route: "POST /recordedless", by: null },
  { route: "POST /payments", by: "orders.create" },
  { route: "POST /served", by: "orders.serve" },
  { route: "PATCH /payments/:id", url: "/payments/1", by: null },
  { route: "POST /answered", by: null },
  { route: "POST /handed", by: "orders.create" },
  { route: "ALL /any", by: null },
  { route: "ALL /any-protected", by: "orders.create" },
  { route: "POST /route", by: "orders.create" },
  { route: "PUT /route", by: null },
  { route: "POST /one", by: "orders.create" },
  { route: "POST /two", by: "orders.create" },
  { route: "POST /api/:version/orders/plain/:id", url: "/api/v1/orders/plain/2", by: null },
  { route: "POST /api/:version/orders", url: "/api/v1/orders", by: "orders.create" },
  { route: "DELETE /api/:version/orders/:id", url: "/api/v1/orders/3", by: null },
  { route: "POST /p/z", by: null },
  { route: "POST /q.r/z", by: null },
];

/** A router of Express 5 before 2.3 does not keep the text of its mounts. */
function forgetPaths(router: { readonly stack: readonly { readonly handle: object }[] }): void {
  for (const layer of router.stack) {
    Reflect.deleteProperty(layer, "rawPath");
    const { handle } = layer;
    if ("stack" in handle) forgetPaths(handle as express.Router);
  }
}

/** A parameter of a mount has lost its name there. */
const withoutNames = known.map((one) => ({ ...one, route: one.route.replace(":version", ":param") }));

describe.each([
  ["Express 5", express, known],
  ["Express 4", express4, withoutNames],
] as const)("%s", (_, make, expected) => {
  test("the audit says what happens to a request that comes twice", async () => {
    const world = openWorld();
    const app = appOf(make as MakeExpress, world);
    await expectTruth(world, app, app, expected);
  });

  test("a record for the whole app covers what comes after it, with its methods alone", async () => {
    const world = openWorld();
    const { answer, record } = handlersOf(world);
    const app = make();
    app.post("/before", answer);
    app.use(record());
    app.post("/after", answer);
    app.delete("/after", answer);
    await expectTruth(world, app, app, [
      { route: "POST /before", by: null },
      { route: "POST /after", by: "orders.create" },
      { route: "DELETE /after", by: null },
    ]);
  });
});

test("routers of Express 5 that keep no paths are read by their patterns", () => {
  const app = appOf(express, openWorld());
  forgetPaths(app.router);
  expect(audited(app)).toEqual(withoutNames.map(({ route, by }) => ({ route, by })));
  expect(RegExp.prototype.exec.toString()).toContain("native code");
});

test("an app inside an app cannot be looked into, and counts as unprotected", () => {
  for (const make of [express, express4]) {
    const app = make();
    app.use("/sub", make());
    expect(audited(app)).toEqual([{ route: "ALL /sub", by: null }]);
  }
});

test("a router can be audited by itself, and an app without routes has none", () => {
  const { answer } = handlersOf(openWorld());
  for (const make of [express, express4]) {
    expect(audited(make.Router().post("/orders", answer))).toEqual([{ route: "POST /orders", by: null }]);
    expect(audited(make())).toEqual([]);
  }
});
