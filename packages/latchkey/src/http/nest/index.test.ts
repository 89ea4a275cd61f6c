/** Types, and refusals without an app. For running apps see test/nest/module-cases.ts, for each version of Nest. */
import "reflect-metadata";
import type { DynamicModule } from "@nestjs/common";
import { expect, expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { memoryStore } from "../../stores/memory.ts";
import {
  IdempotencyContext,
  IdempotencyStatus,
  Idempotent,
  type LatchkeyHealth,
  type LatchkeyHealthIndicator,
  LatchkeyModule,
} from "./index.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const http = { singleTenant: true } as const;

test("its results fit Nest's own module lists and decorators", () => {
  expectTypeOf(LatchkeyModule.forRoot({ latchkey, http })).toExtend<DynamicModule>();
  expectTypeOf(Idempotent("orders.create", { waitMs: 5_000 })).toExtend<MethodDecorator>();
  expectTypeOf(Idempotent(Symbol("ORDER"), { fingerprint: "parsed" })).toExtend<MethodDecorator>();
  expectTypeOf(IdempotencyStatus()).toExtend<MethodDecorator>();
  expectTypeOf<ReturnType<typeof IdempotencyContext>>().toExtend<ParameterDecorator>();
  expectTypeOf<Awaited<ReturnType<LatchkeyHealthIndicator["isHealthy"]>>>().toExtend<
    Record<string, LatchkeyHealth>
  >();
});

test("types refuse options of another execution, and a latchkey without http", () => {
  // @ts-expect-error: `runs` is not an option.
  Idempotent("orders.create", { runs: true });
  // @ts-expect-error: without `run` there is nothing to defer.
  Idempotent("orders.create", { execution: "deferred" });
  // @ts-expect-error: an operation that owns its work has a version.
  Idempotent("orders.create", { run: async () => ({ status: 200, body: null }) });
  // @ts-expect-error: the tenant is missing.
  expect(() => LatchkeyModule.forRoot({ latchkey })).toThrow("http is missing");
});

test("a constructor's parameter is refused", () => {
  class Controller {}
  expect(() => IdempotencyContext()(Controller, undefined, 0)).toThrow("is for parameters of methods");
});
