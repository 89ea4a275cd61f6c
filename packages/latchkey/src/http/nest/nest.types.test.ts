import { createParamDecorator, UseInterceptors } from "@nestjs/common";
import type { Request } from "express";
import type { FastifyRequest } from "fastify";
import { expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { memoryStore } from "../../stores/memory.ts";
import { nestContext, nestProtect } from "./nest.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const transactional = latchkey.operation("types.transaction", { execution: "transaction" });
const leased = latchkey.operation("types.lease", { execution: "lease" });

test("its results fit Nest's own decorators, on either platform", () => {
  const onExpress = nestProtect(latchkey, { tenant: (req: Request) => req.get("x-tenant") });
  const onFastify = nestProtect(latchkey, { tenant: (request: FastifyRequest) => request.hostname });
  expectTypeOf(UseInterceptors(onExpress(transactional), onFastify(leased))).toExtend<MethodDecorator>();
  expectTypeOf(createParamDecorator(nestContext)()).toEqualTypeOf<ParameterDecorator>();
});

test("without annotation the tenant function gets what every request has", () => {
  nestProtect(latchkey, { tenant: ({ user, headers }) => user?.account ?? headers["x-tenant"] });
});
