/** The app of one case: its store, whose failures the case controls, its operation and its route. */

import {
  createLatchkey,
  type Execution,
  type Latchkey,
  type LatchkeyEvent,
  type Operation,
  type OwnAttempt,
  type RunAnswer,
} from "latchkey";
import { type Fault, faultyStore } from "latchkey/testing";
import type { StoreUnderTest } from "../store-conformance/case.ts";
import type {
  AppUnderTest,
  HandlerContextUnderTest,
  HeaderLookup,
  ProtectedRoute,
  ServedInput,
  ServedRoute,
  ServedSetup,
  Setup,
  Subject,
} from "./case.ts";
import { workOff } from "./work-off.ts";

export interface Arranged<Tx> {
  readonly app: AppUnderTest<Tx>;
  readonly subject: Omit<Subject, "url" | "send" | "look">;
}

/** A protected route. */
export function arrange<Tx>(under: StoreUnderTest<Tx>, setup: Setup, number: number): Arranged<Tx> {
  const { app, subject, started } = surroundings(under, setup);
  const { handle = echo } = setup;
  const route = routeOf(app.latchkey, under, setup, number, (context) => {
    started();
    return handle(context);
  });
  return { app: { ...app, route }, subject };
}

/** A served route, and a protected one that receives no requests. */
export function arrangeServed<Tx>(
  under: StoreUnderTest<Tx>,
  setup: ServedSetup,
  number: number,
): Arranged<Tx> & { readonly app: { readonly served: ServedRoute } } {
  const { execution } = setup;
  const settings = execution === "deferred" ? { statusPath, ...setup.settings } : { ...setup.settings };
  const { app, subject, started } = surroundings(under, { ...setup, settings });
  const unasked = execution === "transaction" ? execution : "lease";
  const route = routeOf(app.latchkey, under, { execution: unasked }, number, echo);
  const served = servedRouteOf(app.latchkey, under, setup, number, started);
  return { app: { ...app, route, served }, subject };
}

const statusPath = "/operations";

/** A protected route whose operation owns its work, or a served one whose operation does not. */
export function arrangeWrong<Tx>(
  under: StoreUnderTest<Tx>,
  wrong: "protected" | "served",
  execution: Execution,
): Arranged<Tx> {
  const { app, subject } = arrangeServed(under, { execution }, 0);
  const { served, ...others } = app;
  const { route } = others;
  // An adapter's types reject this; JavaScript does not.
  const bare = route.operation as Operation as ServedRoute["operation"];
  const owned = served.operation as Operation as Operation<never>;
  return wrong === "protected"
    ? { app: { ...others, route: { ...route, operation: owned } }, subject }
    : { app: { ...app, served: { ...served, operation: bare } }, subject };
}

function surroundings<Tx>(
  under: StoreUnderTest<Tx>,
  { policy, limits, settings = {} }: Pick<Setup, "policy" | "limits" | "settings">,
) {
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
    ...(policy === undefined ? {} : { policy }),
    ...(limits === undefined ? {} : { limits }),
  });
  const subject: Arranged<Tx>["subject"] = {
    starts: () => starts,
    events,
    work: () => workOff(latchkey),
    async clean() {
      await under.store.clean(100);
    },
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
  const principal = (header: HeaderLookup) => header("x-principal") ?? null;
  const app = { latchkey, settings, tenant: tenantOf, principal };
  const started = () => {
    starts += 1;
  };
  return { app, subject, started };
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

function servedRouteOf<Tx>(
  latchkey: Latchkey<Tx>,
  under: StoreUnderTest<Tx>,
  setup: ServedSetup,
  number: number,
  started: () => void,
): ServedRoute {
  const { run = answerWithInput, toInput = (sent: string) => ({ sent }) } = setup;
  const common = { writes: "none", ...setup.options, version: "1" } as const;
  const name = `conformance.serve-${number}`;
  const begin = (
    input: ServedInput,
    attempt: OwnAttempt<Tx, "transaction"> | OwnAttempt<Tx, "lease">,
    write: HandlerContextUnderTest["write"],
  ) => {
    started();
    return run(input, { attempt, write });
  };
  const inSteps = (execution: "lease" | "deferred") =>
    latchkey.operation(name, {
      ...common,
      execution,
      run: (input: ServedInput, attempt) =>
        begin(input, attempt, (row) =>
          attempt.phase(row, async (tx) => {
            await under.business?.write(tx, row);
          }),
        ),
    });
  const transactional = () =>
    latchkey.operation(name, {
      ...common,
      execution: "transaction",
      run: (input: ServedInput, attempt) =>
        begin(input, attempt, async (row) => under.business?.write(attempt.tx, row)),
    });
  const operation: Operation = setup.execution === "transaction" ? transactional() : inSteps(setup.execution);
  return {
    method: setup.method ?? "POST",
    path: "/serve",
    operation: operation as Operation as ServedRoute["operation"],
    toInput: async (readBody) => toInput(Buffer.from(await readBody()).toString("utf8")) as ServedInput,
  };
}

async function answerWithInput(input: ServedInput): Promise<RunAnswer> {
  return { status: 201, body: input };
}
