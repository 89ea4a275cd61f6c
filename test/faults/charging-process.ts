/**
 * A process that charges cards: it takes submissions, stops them at a port call when asked, and runs the background services.
 * Its argument is JSON (`ProcessSettings`); commands come on stdin, one line of JSON each, and what happens goes to stdout.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { createInterface } from "node:readline";
import pg from "pg";
import { fingerprintOf } from "../../packages/latchkey/src/fingerprint/fingerprint.ts";
import {
  createLatchkey,
  isLatchkeyError,
  leaseRescuer,
  outcomeReconciler,
  type Result,
  recordCleaner,
  type Service,
} from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { defineCharging, type Order, type Settings } from "./charging-work.ts";
import { along, Course, type StopAt, stoppingStore } from "./stops.ts";

export interface ProcessSettings extends Settings {
  readonly databaseUrl: string;
  readonly providerUrl: string;
  /** How often the outcome-reconciler asks before it leaves a record to a person. Default 3. */
  readonly triesMax?: number;
}

export type ServiceName = "rescuer" | "reconciler" | "cleaner";

/** Every command is answered by a line with `done: id`. */
export type Command =
  | {
      readonly do: "submit";
      readonly id: number;
      readonly operation: string;
      readonly order: Order;
      /** It stops there, says `stopped: id`, and goes on when it is released. */
      readonly stop: StopAt | null;
      /** How the provider is to behave at each send, in order; then as it always does. */
      readonly modes: readonly string[];
    }
  | { readonly do: "release"; readonly id: number; readonly submission: number }
  /** One round. */
  | { readonly do: "work"; readonly id: number; readonly service: ServiceName }
  /** Round after round, until the process ends. */
  | { readonly do: "start"; readonly id: number; readonly services: readonly ServiceName[] };

/** How a submission ended, as far as its caller can tell. */
export type RunEnd =
  | {
      readonly kind: "executed" | "replay";
      readonly status: number;
      readonly headers: readonly (readonly [name: string, value: string])[];
      /** Base64. */
      readonly body: string;
    }
  | { readonly kind: "unknown"; readonly retryAfterMs: number | null }
  | { readonly kind: "threw"; readonly code: string }
  | { readonly kind: "other"; readonly what: string };

const settings = JSON.parse(process.argv[2] ?? "") as ProcessSettings;
const tell = (line: Readonly<Record<string, unknown>>) => process.stdout.write(`${JSON.stringify(line)}\n`);
const pool = new pg.Pool({ connectionString: settings.databaseUrl, max: 32 });
pool.on("error", () => {});
const modes = new AsyncLocalStorage<string[]>();
const releases = new Map<number, () => void>();

const latchkey = createLatchkey({
  store: stoppingStore(postgresStore({ pool })),
  onEvent: (event) => {
    if ("error" in event) tell({ event: event.type, error: String(event.error) });
    else tell({ event: event.type, ...("because" in event && { because: event.because }) });
  },
});
const { databaseUrl: _, providerUrl, triesMax = 3, ...options } = settings;
const operations = defineCharging(latchkey, {
  settings: options,
  providerUrl,
  tell,
  nextMode: () => modes.getStore()?.shift() ?? options.mode ?? "ok",
});
const services: Readonly<Record<ServiceName, Service<unknown>>> = {
  rescuer: leaseRescuer(latchkey, { intervalMs: 40 }),
  reconciler: outcomeReconciler(latchkey, { intervalMs: 40, batchSize: 100, triesMax }),
  cleaner: recordCleaner(latchkey, { intervalMs: 20 }),
};

async function submit({
  id,
  operation: name,
  order,
  stop,
  modes: sends,
}: Extract<Command, { do: "submit" }>) {
  const operation = operations.get(name);
  if (operation === undefined) throw new TypeError(`no operation ${name}`);
  const course = new Course(stop, (port) => {
    tell({ stopped: id, port });
    return new Promise((resolve) => releases.set(id, resolve));
  });
  const submission = {
    key: { tenant: "t", scope: name, key: order.order },
    fingerprint: fingerprintOf(name, order),
    principal: null,
  };
  const run = () => latchkey.executeOwned(operation, submission, order);
  const ended = await along(course, () => modes.run([...sends], run)).then(runEndOf, failed);
  tell({ done: id, reply: ended, ports: course.ports });
}

function runEndOf(result: Result): RunEnd {
  switch (result.kind) {
    case "executed":
    case "replay": {
      const { status, headers, body } = result.answer;
      return { kind: result.kind, status, headers, body: Buffer.from(body).toString("base64") };
    }
    case "unknown":
      return { kind: "unknown", retryAfterMs: result.retryAfterMs };
    default:
      return { kind: "other", what: result.kind };
  }
}

function failed(error: unknown): RunEnd {
  return { kind: "threw", code: isLatchkeyError(error) ? error.code : String(error) };
}

async function handleLine(command: Command): Promise<void> {
  switch (command.do) {
    case "submit":
      return submit(command);
    case "release":
      releases.get(command.submission)?.();
      tell({ done: command.id });
      return;
    case "work": {
      const report = await services[command.service].runOnce().catch((error: unknown) => String(error));
      tell({ done: command.id, report });
      return;
    }
    case "start":
      for (const name of command.services) services[name].start();
      tell({ done: command.id });
      return;
    default:
      return command satisfies never;
  }
}

// No lease is to be lost to the loading of what the first statement and the first send need.
await pool.query("select 1");
await fetch(`${providerUrl}/charges?reference=none`).then((response) => response.arrayBuffer());
tell({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  void handleLine(JSON.parse(line) as Command);
}
process.exit();
