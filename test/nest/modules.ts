/** The apps of the cases, as users write them. */
import type { DynamicModule, Type } from "@nestjs/common";
import {
  IdempotencyContext,
  IdempotencyStatus,
  Idempotent,
  LATCHKEY,
  LatchkeyHealthIndicator,
  type LatchkeyModuleOptions,
} from "../../packages/latchkey/src/http/nest/index.ts";
import { createLatchkey, type Latchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { Attempt, HandlerContext } from "../../packages/latchkey/src/operations/attempt.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import type { Nest } from "./nest-versions.ts";

export const http = {
  tenant: ({ headers }: { headers: Record<string, unknown> }) => headers["x-tenant"] as string,
};

export function memory() {
  const store = memoryStore();
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({ store, onEvent: (event) => events.push(event) });
  return { store, latchkey, events };
}

export const given = (): LatchkeyModuleOptions<MemoryTransaction> => ({ latchkey: memory().latchkey, http });

export function rootOf(nest: Nest, controllers: Type[], ...imports: (Type | DynamicModule)[]): Type {
  @nest.common.Module({ imports, controllers })
  class Root {}
  return Root;
}

export function controllerOf(Root: Type): Type {
  return Reflect.getMetadata("controllers", Root)[0];
}

export function orders(nest: Nest, latchkeyModule: DynamicModule): Type {
  const { common } = nest;
  @common.Controller("orders")
  class Orders {
    @common.Post()
    @Idempotent("orders.create", { waitMs: 5_000 })
    async create(
      @common.Body() { item }: { item: string },
      @IdempotencyContext() { tx }: HandlerContext<MemoryTransaction, "transaction">,
      @IdempotencyContext("attempt") attempt: Attempt,
    ) {
      await tx.insert("orders", { item });
      return { item, ref: attempt.id };
    }
  }
  return rootOf(nest, [Orders], latchkeyModule);
}

export function reports(nest: Nest, latchkeyModule: DynamicModule): Type {
  const { common } = nest;
  @common.Controller()
  class Reports {
    @common.Post("reports")
    @Idempotent("reports.create", {
      execution: "deferred",
      version: "1",
      run: async (input: { month: string }) => ({ status: 201, body: input }),
    })
    create(@common.Body() { month }: { month: string }) {
      return { month };
    }

    @common.Get("operations/:id")
    @IdempotencyStatus()
    status() {}
  }
  return rootOf(nest, [Reports], latchkeyModule);
}

export function charges(nest: Nest, latchkeyModule: DynamicModule): Type {
  const { common } = nest;
  const CHARGE = Symbol("CHARGE");
  @common.Injectable()
  class Provider {
    #charged = 0;
    charge = async () => ({ charged: ++this.#charged, by: "provider" });
  }
  @common.Controller("charges")
  class Charges {
    @common.Post()
    @Idempotent(CHARGE)
    create() {
      return {};
    }
  }
  @common.Module({
    imports: [latchkeyModule],
    controllers: [Charges],
    providers: [
      Provider,
      {
        provide: CHARGE,
        inject: [LATCHKEY, Provider],
        useFactory: (latchkey: Latchkey<never>, provider: Provider) =>
          latchkey.operation("charges.create", {
            execution: "lease",
            version: "1",
            run: async (_input: object) => ({ status: 201, body: await provider.charge() }),
          }),
      },
    ],
  })
  class Root {}
  return Root;
}

export function health(nest: Nest, latchkeyModule: DynamicModule): Type {
  const { common, terminus } = nest;
  @common.Controller("health")
  class Health {
    readonly #check: InstanceType<typeof terminus.HealthCheckService>;
    readonly #latchkey: LatchkeyHealthIndicator;
    constructor(
      @common.Inject(terminus.HealthCheckService) check: InstanceType<typeof terminus.HealthCheckService>,
      @common.Inject(LatchkeyHealthIndicator) latchkey: LatchkeyHealthIndicator,
    ) {
      this.#check = check;
      this.#latchkey = latchkey;
    }
    @common.Get()
    ask() {
      return this.#check.check([() => this.#latchkey.isHealthy()]);
    }
  }
  return rootOf(nest, [Health], terminus.TerminusModule, latchkeyModule);
}
