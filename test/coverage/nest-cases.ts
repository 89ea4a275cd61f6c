/** The audit of a Nest app, on one version of Nest. */
import type { NestInterceptor } from "@nestjs/common";
import { describe, expect, test } from "vitest";
import { expressRecord } from "../../packages/latchkey/src/http/express/express.ts";
import { Idempotent, LatchkeyModule } from "../../packages/latchkey/src/http/nest/index.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { createApp, type Nest, type Platform } from "../nest/nest-versions.ts";
import { audited, expectTruth, openWorld, type World } from "./world.ts";

const passing: NestInterceptor = { intercept: (_context, next) => next.handle() };

function rootOf({ common, core }: Nest, world: World) {
  const { Body, Controller, Delete, Get, HttpCode, Module, Patch, Post, Put, UseInterceptors } = common;
  const protect = nestProtect(world.latchkey, world.options);
  const answer = (route: string) => {
    world.ran(route);
    return { done: true };
  };

  class Base {
    @Put("inherited")
    inherited() {
      return answer("inherited");
    }
  }

  @Controller({ path: "orders", version: "2" })
  class Orders extends Base {
    @Get()
    read() {
      return answer("read");
    }
    @Post(["a/:id", "b"])
    @HttpCode(200)
    @Idempotent("orders.decorated", { execution: "lease", keyScope: "path" })
    create(@Body() _body: unknown) {
      return answer("create");
    }
    @Patch()
    @UseInterceptors(protect(world.create))
    change() {
      return answer("change");
    }
    @Delete(":id")
    @UseInterceptors(passing)
    remove() {
      return answer("remove");
    }
  }

  @Controller("whole")
  @UseInterceptors(protect(world.create))
  class Whole {
    @Put()
    put() {
      return answer("put");
    }
  }

  @Module({ controllers: [Orders, Whole] })
  class Inner {}

  const latchkey = LatchkeyModule.forRoot({
    latchkey: world.latchkey,
    http: { tenant: () => "t" },
    worker: false,
  });
  @Module({ imports: [latchkey, Inner, core.RouterModule.register([{ path: "inner", module: Inner }])] })
  class Root {}
  return Root;
}

const known = [
  { route: "POST /api/v2/inner/orders/a/:id", url: "/api/v2/inner/orders/a/1", by: "orders.decorated" },
  { route: "POST /api/v2/inner/orders/b", by: "orders.decorated" },
  { route: "PATCH /api/v2/inner/orders", by: "orders.create" },
  { route: "DELETE /api/v2/inner/orders/:id", url: "/api/v2/inner/orders/1", by: null },
  { route: "PUT /api/v2/inner/orders/inherited", by: null },
  { route: "PUT /api/inner/whole", by: "orders.create" },
];

export function nestCoverageCases(nest: Nest): void {
  const open = async (platform: Platform, world: World) => {
    const app = await createApp(nest, platform, rootOf(nest, world));
    app.setGlobalPrefix("api");
    app.enableVersioning({ type: nest.common.VersioningType.URI });
    return app;
  };

  describe(`Nest ${nest.version}`, () => {
    test.each<Platform>(["Express", "Fastify"])("on %s: the audit says what happens", async (platform) => {
      const world = openWorld();
      const app = await open(platform, world);
      const before = audited(app);
      await app.init();
      expect(audited(app), "before it has been initialised, too").toEqual(before);
      const instance = app.getHttpAdapter().getInstance();
      if (platform === "Fastify") await instance.ready();
      const listener = platform === "Fastify" ? instance.routing : instance;
      await expectTruth(world, app, listener, known);
    });

    test("a global interceptor, and a record that is mounted before the routes, count for all controllers", async () => {
      const world = openWorld();
      const { latchkey, options, create } = world;
      const first = await open("Express", world);
      first.useGlobalInterceptors(passing, nestProtect(latchkey, options)(create));
      expect(audited(first).map(({ by }) => by)).not.toContain(null);

      const second = await open("Express", openWorld());
      second.use(expressRecord(latchkey, { ...options, methods: ["POST", "DELETE"] })(create));
      await second.init();
      expect(audited(second).map(({ by }) => by)).toEqual([
        "orders.decorated",
        "orders.decorated",
        "orders.create",
        "orders.create",
        null,
        "orders.create",
      ]);
      const late = await open("Express", openWorld());
      await late.init();
      late.use(expressRecord(latchkey, { ...options, methods: ["DELETE"] })(create));
      expect(audited(late).filter(({ by }) => by === null)).toHaveLength(2);
    });
  });
}
