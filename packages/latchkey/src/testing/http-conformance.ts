/**
 * The HTTP conformance suite: proves that an adapter keeps the protocol of `latchkey/http/exchange`. It brings no test
 * runner and no framework; the runner's function is handed in, and a function that serves a route through the adapter.
 */
import type { Execution } from "../engine/classify.ts";
import { createLatchkey, type Latchkey } from "../latchkey.ts";
import type { Operation } from "../operation.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import type { Fault } from "./faulty-store/fault.ts";
import { faultyStore } from "./faulty-store.ts";
import { answerCases } from "./http-conformance/answers.ts";
import type {
  AppUnderTest,
  HandlerContextUnderTest,
  HeaderLookup,
  HttpCase,
  HttpCaseContext,
  ProtectedRoute,
  Setup,
  Subject,
} from "./http-conformance/case.ts";
import { send } from "./http-conformance/client.ts";
import { failureCases } from "./http-conformance/failures.ts";
import { keyCases } from "./http-conformance/keys.ts";
import { refusalCases } from "./http-conformance/refusals.ts";
import { requestBodyCases } from "./http-conformance/request-bodies.ts";
import type { StoreUnderTest } from "./store-conformance/case.ts";

export interface HttpConformanceOptions<Tx> {
  /** Registers one test, as `test` or `it` of any runner does. */
  readonly test: (name: string, body: () => Promise<void>) => void;
  /** Makes one empty store per case. */
  readonly store: () => StoreUnderTest<Tx> | Promise<StoreUnderTest<Tx>>;
  /** Serves the app's route through the adapter, on `node:http`. */
  readonly serve: (app: AppUnderTest<Tx>) => Promise<{ readonly url: string; close(): Promise<void> }>;
  /** Whether the adapter sees repeated field lines one by one (Node's), or joined (Fetch's `Headers`). */
  readonly seesFieldLines: boolean;
  /** Cases to leave out, by name, each with the reason. An unknown name is a `TypeError`. None when absent. */
  readonly skip?: Readonly<Record<string, string>>;
}

const cases: readonly HttpCase[] = [
  ...keyCases,
  ...requestBodyCases,
  ...answerCases,
  ...refusalCases,
  ...failureCases,
];

/**
 * Registers one test for each case and execution.
 *
 * @throws {TypeError} when `skip` names no case of the suite, or gives no reason
 */
export function httpConformance<Tx>(options: HttpConformanceOptions<Tx>): void {
  const skip = new Map(Object.entries(options.skip ?? {}));
  for (const [name, reason] of skip) {
    if (!cases.some((candidate) => candidate.name === name))
      throw new TypeError(`No case is named "${name}"`);
    if (reason.trim() === "") throw new TypeError(`Skipping "${name}" needs a reason`);
  }
  for (const each of cases.filter(({ name }) => !skip.has(name))) {
    const executions: readonly Execution[] = each.execution ? [each.execution] : ["transaction", "lease"];
    for (const execution of executions) {
      options.test(`${each.name} (${execution})`, () => runCase(options, each, execution));
    }
  }
}

async function runCase<Tx>(
  options: HttpConformanceOptions<Tx>,
  { run }: HttpCase,
  execution: Execution,
): Promise<void> {
  const under = await options.store();
  const servers: { close(): Promise<void> }[] = [];
  const context: HttpCaseContext = {
    async start(setup) {
      const { app, subject } = arrange(under, setup, servers.length);
      const server = await options.serve(app);
      servers.push(server);
      return {
        ...subject,
        url: server.url,
        send(call, signal) {
          const answer = send(server.url, call, signal);
          // A case that fails leaves others of its requests behind, whose errors say nothing new.
          answer.catch(() => {});
          return answer;
        },
      };
    },
    async advance(milliseconds) {
      await under.advance(milliseconds);
    },
    committedRows: execution === "transaction" ? (under.business?.committedRows ?? null) : null,
    seesFieldLines: options.seesFieldLines,
  };
  try {
    await run(context, execution);
  } finally {
    for (const server of servers) await server.close();
    await under.close();
  }
}

function arrange<Tx>(
  under: StoreUnderTest<Tx>,
  setup: Setup,
  number: number,
): { app: AppUnderTest<Tx>; subject: Omit<Subject, "url" | "send"> } {
  let fault: () => Fault = () => "proceed";
  let completionFault = fault;
  let starts = 0;
  const events: LatchkeyEvent[] = [];
  const { store } = faultyStore(under.store, ({ port }) =>
    port === "commit" || port === "end" ? completionFault() : fault(),
  );
  const latchkey = createLatchkey({
    store,
    onEvent: (event) => events.push(event),
    ...(setup.policy === undefined ? {} : { policy: setup.policy }),
  });
  const { handle = echo } = setup;
  const app: AppUnderTest<Tx> = {
    latchkey,
    settings: setup.settings ?? {},
    tenant: tenantOf,
    principal: (header) => header("x-principal") ?? null,
    route: routeOf(latchkey, under, setup, number, (context) => {
      starts += 1;
      return handle(context);
    }),
  };
  const subject: Omit<Subject, "url" | "send"> = {
    starts: () => starts,
    events,
    setStoreDown(down) {
      fault = () => (down ? "not_sent" : "proceed");
    },
    parkCompletion() {
      const reached = Promise.withResolvers<void>();
      const confirmed = Promise.withResolvers<void>();
      completionFault = () => {
        reached.resolve();
        return { kind: "reply", until: confirmed.promise };
      };
      return { reached: reached.promise, confirm: () => confirmed.resolve() };
    },
  };
  return { app, subject };
}

function tenantOf(header: HeaderLookup): string | null {
  const tenant = header("x-tenant") ?? null;
  if (tenant === "throw") throw new Error("The authentication is broken");
  return tenant;
}

type Handle = NonNullable<Setup["handle"]>;

async function echo({ readBody }: HandlerContextUnderTest): ReturnType<Handle> {
  return { status: 201, headers: [["Content-Type", "application/octet-stream"]], body: await readBody() };
}

function routeOf<Tx>(
  latchkey: Latchkey<Tx>,
  under: StoreUnderTest<Tx>,
  setup: Setup,
  number: number,
  handle: Handle,
): ProtectedRoute<Tx> {
  const place = { method: setup.method ?? "POST", path: "/run" } as const;
  const name = `conformance.run-${number}`;
  if (setup.execution === "lease") {
    const operation: Operation<"lease"> = latchkey.operation(name, { ...setup.options, execution: "lease" });
    const write = async () => {};
    return {
      ...place,
      execution: "lease",
      operation,
      handle: (readBody, { attempt }) => handle({ readBody, attempt, write }),
    };
  }
  const operation = latchkey.operation(name, { writes: "none", ...setup.options, execution: "transaction" });
  return {
    ...place,
    execution: "transaction",
    operation,
    handle: (readBody, { attempt, tx }) =>
      handle({ readBody, attempt, write: async (row) => under.business?.write(tx, row) }),
  };
}
