/** What is refused when a module is made, and when an app starts. */
import { expect, test } from "vitest";
import { Idempotent, LatchkeyModule } from "../../packages/latchkey/src/http/nest/index.ts";
import { given, http, memory, orders, rootOf } from "./modules.ts";
import { createApp, type Nest, startApp } from "./nest-versions.ts";

export function refusalCases(nest: Nest): void {
  const { latchkey } = memory();
  class Other {
    createLatchkeyOptions = given;
  }
  const unknown = { latchkey, http, workers: {} };
  test.each<[string, () => unknown, RegExp]>([
    ["none", () => LatchkeyModule.forRoot({} as never), /latchkey is missing/],
    ["no http", () => LatchkeyModule.forRoot({ latchkey } as never), /http is missing/],
    ["an unknown one", () => LatchkeyModule.forRoot(unknown as never), /Did you mean worker\?/],
    ["two ways", () => LatchkeyModule.forRootAsync({ useClass: Other, useExisting: Other }), /takes one of/],
    ["no way", () => LatchkeyModule.forRootAsync({}), /takes one of/],
    ["no operation", () => Idempotent({} as never), /takes an operation's name/],
  ])("%s", (_, make, message) => {
    expect(make).toThrow(message);
  });

  test("when the app starts: what a factory gives, and an operation's", async () => {
    const wrong = LatchkeyModule.forRootAsync({ useFactory: () => ({ latchkey }) as never });
    await expect(createApp(nest, "Express", orders(nest, wrong))).rejects.toThrow(/http is missing/);
    class Misspelt {
      create() {}
    }
    const { prototype } = Misspelt;
    const method = Object.getOwnPropertyDescriptor(prototype, "create") ?? {};
    nest.common.Post()(prototype, "create", method);
    Idempotent("misspelt.create", { waitMS: 5_000 } as never)(prototype, "create", method);
    nest.common.Controller()(Misspelt);
    const Root = rootOf(nest, [Misspelt], LatchkeyModule.forRoot(given()));
    await expect(createApp(nest, "Express", Root)).rejects.toThrow(/Did you mean waitMs\?/);
  });

  test("when the app starts: a method that another decorator has replaced, and one that is no route", async () => {
    const { common } = nest;
    const wrap: MethodDecorator = (_target, _method, descriptor: PropertyDescriptor) => {
      const inner = descriptor.value;
      descriptor.value = function (this: unknown, ...given: unknown[]) {
        return inner.apply(this, given);
      };
    };
    class Replaced {
      @common.Post("replaced")
      @wrap
      @Idempotent("replaced.create", { writes: "none" })
      create() {
        return {};
      }
    }
    common.Controller()(Replaced);
    class NoRoute {
      @Idempotent("no-route.create", { writes: "none" })
      create() {
        return {};
      }
    }
    common.Controller()(NoRoute);
    for (const [controller, message] of [
      [Replaced, /Replaced\.create protects nothing: a decorator above it has replaced the method/],
      [NoRoute, /NoRoute\.create protects nothing: the method is not a route/],
    ] as const) {
      const Root = rootOf(nest, [controller], LatchkeyModule.forRoot(given()));
      await expect(startApp(nest, "Express", Root)).rejects.toThrow(message);
    }
  });
}
