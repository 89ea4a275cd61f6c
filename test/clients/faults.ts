/** What goes wrong, each time in the same way: every step waits for the one before it, none for the clock. */
import { patient } from "../support/patience.ts";
import type { Client } from "./clients.ts";
import type { Lab, Waiting } from "./lab.ts";
import { isRequest, openWire, type Wire } from "./wire.ts";

/** What the client's user sees in the end. */
export type Seen =
  | { readonly kind: "answer"; readonly status: number; readonly body: unknown }
  | { readonly kind: "error"; readonly name: string; readonly status: number | null };

/** One client in one fault, with a tenant and a key of its own. */
export interface Trial {
  readonly lab: Lab;
  readonly client: Client;
  readonly tenant: string;
  readonly key: string;
  readonly wire: Wire;
  /** The one handler that runs, at the gate. */
  handler(): Promise<Waiting>;
  /** Sends through the wire. */
  send(options?: SendOptions): Promise<Seen>;
  /** Sends the same past the wire. */
  sendDirectly(options?: SendOptions): Promise<Seen>;
  orders(): Promise<readonly { readonly id: string }[]>;
}

export interface SendOptions {
  readonly item?: string;
  readonly timeoutMs?: number;
}

/** Waits until all who take part in a fault of the store are there, then lets them go on. */
export interface Outage {
  over(): Promise<void>;
}

export interface Fault {
  /** The column of the table. */
  readonly name: string;
  /** Differs from the fixture's usual order. */
  readonly item?: string;
  /** The store is away when it begins. */
  readonly needsOutage?: true;
  run(trial: Trial, outage: Outage): Promise<Seen>;
}

/** Leaves a busy machine the time for the second answer. */
const shortMs = () => patient(6_000);
/** The clients' own limits, 10 s and more, can elapse on a busy machine in faults that are not about slowness. */
const longMs = () => patient(30_000);
/** More than one read from a socket takes, and less than Latchkey's limit for a body. */
const longItem = "x".repeat(300_000);

export const faults: readonly Fault[] = [
  {
    name: "answer lost",
    async run(trial) {
      letHandlerRun(trial);
      const answer = trial.wire.proxy.holdReplyWhen(() => true);
      const seen = trial.send();
      await answer.held();
      if ((await trial.orders()).length !== 1) throw new Error("the answer left before the commit");
      answer.drop();
      return seen;
    },
  },
  {
    name: "request cut off",
    item: longItem,
    async run(trial) {
      letHandlerRun(trial);
      const rest = trial.wire.proxy.holdWhen((message) => !isRequest(message));
      const seen = trial.send({ item: longItem });
      await rest.held();
      rest.drop();
      return seen;
    },
  },
  {
    name: "slow, client times out",
    async run(trial) {
      letHandlerRun(trial);
      const answer = trial.wire.proxy.holdReplyWhen(() => true);
      const seen = trial.send({ timeoutMs: shortMs() });
      await answer.held();
      return seen;
    },
  },
  {
    name: "409, then done",
    async run(trial) {
      const first = trial.sendDirectly();
      const handler = await trial.handler();
      const answer = trial.wire.proxy.holdReplyWhen(() => true);
      const seen = trial.send();
      await answer.held();
      handler.release();
      await first;
      answer.release();
      return seen;
    },
  },
  {
    name: "409 all the time",
    async run(trial) {
      const first = trial.sendDirectly();
      const handler = await trial.handler();
      const seen = await trial.send();
      handler.release();
      await first;
      return seen;
    },
  },
  {
    name: "503, then back",
    needsOutage: true,
    async run(trial, outage) {
      const answer = trial.wire.proxy.holdReplyWhen(() => true);
      const seen = trial.send();
      await answer.held();
      await outage.over();
      letHandlerRun(trial);
      answer.release();
      return seen;
    },
  },
];

function letHandlerRun(trial: Trial): void {
  void trial.handler().then((handler) => handler.release());
}

/** What is known of a trial when it is over. */
export interface Observation {
  readonly seen: Seen;
  /** Requests on the wire. */
  readonly attempts: number;
  readonly keys: ReadonlySet<string | null>;
  /** What the user gets who tries the same again by hand. */
  readonly afterwards: Seen;
  readonly orders: readonly { readonly id: string }[];
}

export async function observe(lab: Lab, client: Client, fault: Fault, outage: Outage): Promise<Observation> {
  const trial = await prepare(lab, client, fault);
  const seen = await fault.run(trial, outage);
  const attempts = trial.wire.keys.length;
  const afterwards = await trial.sendDirectly(fault.item === undefined ? {} : { item: fault.item });
  await trial.wire.proxy.close();
  return {
    seen,
    attempts,
    keys: new Set(trial.wire.keys),
    afterwards,
    orders: await trial.orders(),
  };
}

async function prepare(lab: Lab, client: Client, fault: Fault): Promise<Trial> {
  const fixture = lab.fixture(client.policy);
  const wire = await openWire(fixture.port);
  const tenant = `${client.name} | ${fault.name}`;
  const key = crypto.randomUUID();
  const sendTo = (port: number, options: SendOptions = {}) => {
    const { item = "book", timeoutMs = longMs() } = options;
    return outcomeOf(client.send({ port, tenant, key, item, timeoutMs }));
  };
  return {
    lab,
    client,
    tenant,
    key,
    wire,
    handler: () => lab.handler(tenant),
    send: (options) => sendTo(wire.port, options),
    sendDirectly: (options) => sendTo(fixture.port, options),
    orders: () => fixture.ledger(tenant),
  };
}

async function outcomeOf(sent: ReturnType<Client["send"]>): Promise<Seen> {
  try {
    return { kind: "answer", ...(await sent) };
  } catch (error) {
    return { kind: "error", name: nameOf(error), status: statusOf(error) };
  }
}

/** `name` is what an error calls itself; some of these classes leave it at "Error". */
function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return error.name === "Error" ? error.constructor.name : error.name;
}

function statusOf(error: unknown): number | null {
  for (const part of [error, propertyOf(error, "response")]) {
    for (const name of ["statusCode", "status"]) {
      const status = propertyOf(part, name);
      if (typeof status === "number") return status;
    }
  }
  return null;
}

function propertyOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
