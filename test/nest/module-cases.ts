/** `LatchkeyModule` and its decorators, as users write them, on one version of Nest. */
import type { DynamicModule, NestInterceptor, OnApplicationShutdown } from "@nestjs/common";
import { Validator } from "@seriousme/openapi-schema-validator";
import pg from "pg";
import { describe, expect, test } from "vitest";
import {
  IdempotencyContext,
  Idempotent,
  LATCHKEY,
  LatchkeyModule,
  LatchkeyOpenApi,
} from "../../packages/latchkey/src/http/nest/index.ts";
import { createLatchkey, type Latchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { MemoryTransaction } from "../../packages/latchkey/src/stores/memory.ts";
import { migratePostgres, type PgTx, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { newKey } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { deferred, until } from "../support/until.ts";
import { charges, controllerOf, given, health, http, memory, orders, reports, rootOf } from "./modules.ts";
import { createApp, endApp, type Nest, type Platform, startApp } from "./nest-versions.ts";
import { refusalCases } from "./refusal-cases.ts";

export function moduleCases(nest: Nest): void {
  describe(`Nest ${nest.version}`, () => {
    requestCases(nest);
    pipeCase(nest);
    describe("operations", () => operationCases(nest));
    describe("options", () => optionCases(nest));
    describe("refused", () => refusalCases(nest));
    describe("documents of @nestjs/swagger", () => documentCases(nest));
    shutdownCase(nest);
    healthCases(nest);
  });
}

function requestCases(nest: Nest): void {
  test.each<Platform>(["Express", "Fastify"])(
    "on %s: one order, a replay, another body",
    async (platform) => {
      const { store, latchkey } = memory();
      const { call } = await startApp(
        nest,
        platform,
        orders(nest, LatchkeyModule.forRoot({ latchkey, http })),
      );
      const key = newKey();
      const body = '{"item":"book"}';
      const first = await call({ key, body, target: "/orders" });
      expect([first.status, first.json()]).toEqual([201, { item: "book", ref: expect.any(String) }]);
      const retry = await call({ key, body, target: "/orders" });
      expect([retry.status, retry.body, retry.header("idempotent-replayed")]).toEqual([
        201,
        first.body,
        "true",
      ]);
      expect((await call({ key, body: '{"item":"pen"}', target: "/orders" })).status).toBe(422);
      expect((await call({ key: null, body, target: "/orders" })).status).toBe(400);
      expect(store.rows("orders")).toEqual([{ item: "book" }]);
    },
  );

  test("interceptors of decorators above @Idempotent run inside, those below around it", async () => {
    const { latchkey } = memory();
    const { common } = nest;
    const runs = { inside: 0, around: 0 };
    const counting = (where: keyof typeof runs): NestInterceptor => ({
      intercept: (_, next) => {
        runs[where] += 1;
        return next.handle();
      },
    });
    class Ordered {
      create() {
        return { made: true };
      }
    }
    const { prototype } = Ordered;
    const method = Object.getOwnPropertyDescriptor(prototype, "create") ?? {};
    // As stacked decorators are applied: the lowest first.
    common.UseInterceptors(counting("around"))(prototype, "create", method);
    Idempotent("ordered.create", { writes: "none" })(prototype, "create", method);
    common.UseInterceptors(counting("inside"))(prototype, "create", method);
    common.Post("ordered")(prototype, "create", method);
    common.Controller()(Ordered);
    const { call } = await startApp(
      nest,
      "Express",
      rootOf(nest, [Ordered], LatchkeyModule.forRoot({ latchkey, http })),
    );
    const key = newKey();
    await call({ key, target: "/ordered" });
    await call({ key, target: "/ordered" });
    expect(runs).toEqual({ inside: 1, around: 2 });
  });
}

function pipeCase(nest: Nest): void {
  test("under a lease: after a pipe has refused a parameter the key is free", async () => {
    const { latchkey } = memory();
    const { common } = nest;
    @common.Controller("piped")
    class Piped {
      @common.Post()
      @Idempotent("piped.create", { execution: "lease" })
      create(@common.Query("count", common.ParseIntPipe) count: number) {
        return { count };
      }
    }
    const Root = rootOf(nest, [Piped], LatchkeyModule.forRoot({ latchkey, http, worker: false }));
    const { call } = await startApp(nest, "Express", Root);
    const key = newKey();
    const refused = () => call({ key, target: "/piped?count=many" });
    expect((await refused()).status).toBe(400);
    const other = await call({ key, target: "/piped?count=2" });
    expect([other.status, other.json()]).toEqual([201, { count: 2 }]);
  });
}

function operationCases(nest: Nest): void {
  test("with `run` answer by themselves: a worker of the app runs what is deferred", async () => {
    const { latchkey } = memory();
    const at = { ...http, statusPath: "/operations" };
    const { call } = await startApp(
      nest,
      "Express",
      reports(nest, LatchkeyModule.forRoot({ latchkey, http: at })),
    );
    const key = newKey();
    const accepted = await call({ key, target: "/reports", body: '{"month":"may"}' });
    expect(accepted.status).toBe(202);
    const status = { method: "GET", key: null, body: "", target: accepted.header("location") ?? "" };
    const report = await until(async () => {
      const answer = await call(status);
      return answer.status === 201 ? answer : undefined;
    });
    expect(report?.json()).toEqual({ month: "may" });
    expect((await call({ ...status, tenant: "another" })).status).toBe(404);
  });

  test("that need providers come from a provider, by its token", async () => {
    const { latchkey } = memory();
    const { call } = await startApp(
      nest,
      "Express",
      charges(nest, LatchkeyModule.forRoot({ latchkey, http })),
    );
    const key = newKey();
    expect((await call({ key, target: "/charges" })).json()).toEqual({ charged: 1, by: "provider" });
    expect((await call({ key, target: "/charges" })).json()).toEqual({ charged: 1, by: "provider" });
    expect((await call({ target: "/charges" })).json()).toEqual({ charged: 2, by: "provider" });
  });

  test("are defined once, also where two modules have the controller, and for several apps", async () => {
    const { latchkey, store } = memory();
    const Root = orders(nest, LatchkeyModule.forRoot({ latchkey, http, worker: false }));
    @nest.common.Module({ controllers: [controllerOf(Root)] })
    class Again {}
    @nest.common.Module({ imports: [Root, Again] })
    class Both {}
    const first = await createApp(nest, "Express", Both);
    await first.init();
    const { call } = await startApp(nest, "Express", Both);
    expect((await call({ target: "/orders" })).status).toBe(201);
    expect(store.rows("orders")).toHaveLength(1);
  });

  test("of a request-scoped controller", async () => {
    const { latchkey, store } = memory();
    const { common } = nest;
    @common.Controller({ path: "scoped", scope: common.Scope.REQUEST })
    class Scoped {
      @common.Post()
      @Idempotent("scoped.create")
      async create(@IdempotencyContext("tx") tx: MemoryTransaction) {
        await tx.insert("orders", { item: "scoped" });
        return { done: true };
      }
    }
    const { call } = await startApp(
      nest,
      "Express",
      rootOf(nest, [Scoped], LatchkeyModule.forRoot({ latchkey, http })),
    );
    const key = newKey();
    for (const replayed of [null, "true"]) {
      const answer = await call({ key, target: "/scoped" });
      expect([answer.json(), answer.header("idempotent-replayed")]).toEqual([{ done: true }, replayed]);
    }
    expect(store.rows("orders")).toHaveLength(1);
  });
}

function optionCases(nest: Nest): void {
  @nest.common.Injectable()
  class Factory {
    createLatchkeyOptions = async () => given();
  }
  @nest.common.Module({ providers: [Factory], exports: [Factory] })
  class Factories {}
  test.each<[string, DynamicModule]>([
    ["useClass", LatchkeyModule.forRootAsync({ useClass: Factory })],
    ["useExisting", LatchkeyModule.forRootAsync({ imports: [Factories], useExisting: Factory })],
    [
      "useFactory",
      LatchkeyModule.forRootAsync({
        imports: [Factories],
        inject: [Factory],
        useFactory: (factory: Factory) => factory.createLatchkeyOptions(),
      }),
    ],
  ])("by %s", async (_, latchkeyModule) => {
    const { call, app } = await startApp(nest, "Express", orders(nest, latchkeyModule));
    const { runtime } = app.get<Latchkey<MemoryTransaction>>(LATCHKEY);
    expect((await call({ target: "/orders" })).status).toBe(201);
    expect([...runtime.operations.keys()]).toEqual(["orders.create"]);
  });
}

function documentCases(nest: Nest): void {
  const { common, swagger } = nest;
  const config = new swagger.DocumentBuilder().setTitle("Orders").setVersion("1").build();

  test.each(["3.0.0", "3.1.0"])("%s: the key, the problems and the replay marker", async (openapi) => {
    class Order {
      item = "";
    }
    swagger.ApiProperty({ type: String })(Order.prototype, "item");
    @common.Controller("orders")
    class Orders {
      @common.Post()
      @Idempotent("orders.create", { retentionMs: 2 * 24 * 60 * 60 * 1000 })
      @swagger.ApiCreatedResponse({ type: Order })
      @swagger.ApiConflictResponse({ description: "The item is sold out" })
      @swagger.ApiExtension("x-own", true)
      create() {}

      @common.Post("plain")
      plain() {}
    }
    const { latchkey } = memory();
    const latchkeyModule = LatchkeyModule.forRoot({ latchkey, http, worker: false });
    const app = await createApp(nest, "Express", rootOf(nest, [Orders], latchkeyModule));
    const made = { ...swagger.SwaggerModule.createDocument(app, config), openapi };
    const before = JSON.stringify(made.paths["/orders/plain"]);
    const document = app.get(LatchkeyOpenApi).describe(made);
    expect(await new Validator().validate(JSON.parse(JSON.stringify(document)))).toEqual({ valid: true });
    const operation = document.paths["/orders"]?.post;
    expect(operation?.parameters).toMatchObject([
      {
        name: "Idempotency-Key",
        in: "header",
        required: true,
        description: expect.stringContaining("2 days"),
      },
    ]);
    expect(Object.keys(operation?.responses ?? {}).sort()).toEqual([
      "201",
      "400",
      "409",
      "413",
      "422",
      "503",
    ]);
    expect(operation?.responses["201"]).toMatchObject({
      headers: { "Idempotent-Replayed": {} },
      content: { "application/json": { schema: { $ref: "#/components/schemas/Order" } } },
    });
    expect(operation?.responses["409"]).toMatchObject({
      description: expect.stringMatching(/^The item.*in-progress/su),
    });
    expect(operation).toMatchObject({
      "x-own": true,
      "x-idempotency": { operation: "orders.create", policy: "ietf" },
    });
    expect(JSON.stringify(document.paths["/orders/plain"])).toBe(before);
  });
}

function shutdownCase(nest: Nest): void {
  const { common } = nest;

  test("the app's end waits for what is under way, and pools are closed after it", async () => {
    const database = await freshDatabase();
    const events: LatchkeyEvent[] = [];
    const entered = deferred<void>();
    const goOn = deferred<void>();
    @common.Injectable()
    class Database implements OnApplicationShutdown {
      readonly pool = new pg.Pool({ connectionString: database.url, connectionTimeoutMillis: 3_000 });
      async onApplicationShutdown() {
        await this.pool.end();
      }
    }
    @common.Global()
    @common.Module({ providers: [Database], exports: [Database] })
    class DatabaseModule {}
    @common.Controller("orders")
    class Orders {
      @common.Post()
      @Idempotent("orders.create")
      async create(@IdempotencyContext("tx") tx: PgTx<pg.Pool>) {
        entered.resolve();
        await goOn.promise;
        const { rows } = await tx.query("insert into orders values ('book') returning item");
        return rows[0];
      }
    }
    const latchkeyModule = LatchkeyModule.forRootAsync({
      imports: [DatabaseModule],
      inject: [Database],
      useFactory: async ({ pool }: Database) => {
        await migratePostgres(pool);
        await pool.query("create table orders (item text)");
        const latchkey = createLatchkey({
          store: postgresStore({ pool }),
          onEvent: (event) => events.push(event),
        });
        return { latchkey, http };
      },
    });
    const { app, call } = await startApp(nest, "Express", rootOf(nest, [Orders], latchkeyModule));
    expect(events.map(({ type }) => type)).toContain("worker_started");
    const { pool } = app.get(Database);
    const answer = call({ target: "/orders" });
    await entered.promise;
    const closed = endApp(app);
    await until(() => (app.get(LATCHKEY) as Latchkey<never>).runtime.lifecycle.isClosing);
    expect(pool.ended).toBe(false);
    goOn.resolve();
    expect((await answer).json()).toEqual({ item: "book" });
    await closed;
    expect(pool.ended).toBe(true);
    expect(events.filter(({ type }) => type === "worker_stopped")).toMatchObject([{ inTime: true }]);
    await database.drop();
  });
}

function healthCases(nest: Nest): void {
  test.each([
    ["with its worker", {}, "running"],
    ["without a worker", false, "off"],
  ] as const)("health in terminus, %s", async (_, worker, shown) => {
    const database = await freshDatabase();
    const pool = new pg.Pool({ connectionString: database.url, connectionTimeoutMillis: 3_000 });
    pool.on("error", () => {});
    await migratePostgres(pool);
    const latchkey = createLatchkey({ store: postgresStore({ pool }) });
    const Root = health(nest, LatchkeyModule.forRoot({ latchkey, http, worker }));
    const { call } = await startApp(nest, "Express", Root);
    const ask = () => call({ method: "GET", key: null, body: "", target: "/health" });
    const healthy = await until(async () => {
      const answer = await ask();
      return answer.status === 200 ? answer : undefined;
    });
    expect(healthy?.json()).toMatchObject({
      status: "ok",
      details: { latchkey: { status: "up", storeAnswers: true, worker: shown, late: [] } },
    });
    // Dropping it would take the tables' locks, in another order than the worker does: a deadlock now and then.
    await pool.query("alter schema latchkey rename to elsewhere");
    const unhealthy = await ask();
    expect(unhealthy.status).toBe(503);
    expect(unhealthy.json()).toMatchObject({ error: { latchkey: { status: "down", storeAnswers: false } } });
    await latchkey.close();
    await pool.end();
    await database.drop();
  });
}
