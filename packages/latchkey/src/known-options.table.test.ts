/** Every public factory and every nested object of options, called as JavaScript calls them. */
import { expect, test } from "vitest";
import { clients } from "../../../test/registry/clients.ts";
import { frameworks } from "../../../test/registry/frameworks.ts";
import { stores } from "../../../test/registry/stores.ts";
import { cached } from "./caching/cached.ts";
import { defineConfig } from "./config.ts";
import { encryptionCodec } from "./encryption.ts";
import { fetchProtect } from "./http/fetch/fetch.ts";
import { LatchkeyModule } from "./http/nest/index.ts";
import { describeIdempotency } from "./http/openapi/openapi.ts";
import { createLatchkey } from "./latchkey.ts";
import { deadMessages } from "./messages/dead-messages.ts";
import { createInbox } from "./messages/inbox.ts";
import { kafkaConsumer, kafkaRelay } from "./messages/kafka.ts";
import { natsConsumer, natsRelay } from "./messages/nats.ts";
import { rabbitmqConsumer, rabbitmqRelay } from "./messages/rabbitmq.ts";
import { ietf } from "./operations/policies/ietf.ts";
import { createOperator } from "./operator/index.ts";
import { systemPorts } from "./ports.ts";
import { routedStore } from "./routing/routed.ts";
import { postgresArchive, postgresArchiveSql } from "./stores/archive.ts";
import { memoryStore } from "./stores/memory.ts";
import { migratePglite, openPglite } from "./stores/pglite.ts";
import { migratePostgres, migratePostgresSql } from "./stores/postgres.ts";
import { aiSdkProtect, openaiAgentsProtect } from "./tools/agents.ts";
import { mcpProtect, mcpServe } from "./tools/mcp.ts";
import { webhookReceiver } from "./webhooks/webhooks.ts";
import { effectDispatcher } from "./workers/effect-dispatcher.ts";
import { leaseRescuer } from "./workers/lease-rescuer.ts";
import { outcomeReconciler } from "./workers/outcome-reconciler.ts";
import { recordCleaner } from "./workers/record-cleaner.ts";

type Untyped = (...given: readonly unknown[]) => unknown;
const js = (factory: unknown) => factory as Untyped;
const store = memoryStore();
const latchkey = createLatchkey({ store });
const operation = latchkey.operation("op");
const http = { singleTenant: true };
const run = async () => null;
const pool = { connect: run, on() {}, options: { max: 4 } };
const effect = latchkey.effect("e", { deduplication: "none", execute: run });
const settle = (target: object, settlement: object) => js(latchkey.settle)(target, settlement);
const fetchAs = (settings: object) => js(fetchProtect)(latchkey, { singleTenant: true, ...settings });
const worker = (service: string, options: object) => js(latchkey.startWorker)({ [service]: options });
const message = { tenant: "main" };

/** What every adapter of a framework exports. */
const ofFrameworks = Object.fromEntries(
  (
    await Promise.all(
      frameworks.map(async ({ name, adapter, givenApp = [] }) => {
        const module = new Map(Object.entries(await adapter()));
        const exported = ["Protect", "Serve", "Status"].map((kind) => `${name}${kind}`);
        return exported.map((each) => {
          const first = givenApp.includes(each) ? [{}, latchkey] : [latchkey];
          const make = (more: object) => js(module.get(each))(...first, { singleTenant: true, ...more });
          return [each, make] as const;
        });
      }),
    )
  ).flat(),
);

/** What makes a store or a bridge, alone and with ports. */
const ofDatabases = Object.fromEntries(
  (
    await Promise.all(
      [
        ...stores.map(({ name, options, adapter }) => ({ factory: `${name}Store`, options, adapter })),
        ...clients.flatMap(({ bridge, adapter }) => (bridge === undefined ? [] : [{ ...bridge, adapter }])),
      ].map(async ({ factory, options, adapter }) => {
        const make = js(new Map(Object.entries(await adapter())).get(factory));
        return [
          [factory, (more: object) => make({ ...options, ...more })] as const,
          [
            `${factory}: ports`,
            (more: object) => make({ ...options, ports: { ...systemPorts, ...more } }),
          ] as const,
        ];
      }),
    )
  ).flat(),
);

/** What takes options, as a function of the options that make no sense. */
const factories: Readonly<Record<string, (more: object) => unknown>> = {
  createLatchkey: (more) => js(createLatchkey)({ store, ...more }),
  "createLatchkey: limits": (limits) => js(createLatchkey)({ store, limits }),
  "createLatchkey: circuitBreaker": (circuitBreaker) => js(createLatchkey)({ store, circuitBreaker }),
  operation: (more) => js(latchkey.operation)("other", more),
  effect: (more) => js(latchkey.effect)("other", { deduplication: "none", execute: run, ...more }),
  close: (more) => js(createLatchkey({ store }).close)(more),
  run: (more) => js(latchkey.run)(operation, { tenant: "t", key: "k", input: 1, ...more }, run),
  createOperator: (more) => js(createOperator)({ latchkey, ...more }),
  deleteTenant: (more) =>
    js(createOperator({ latchkey }).deleteTenant)("t", { operator: "a", reason: "b" }, more),
  defineConfig: (more) => js(defineConfig)({ latchkey, ...more }),
  "LatchkeyModule.forRoot": (more) => js(LatchkeyModule.forRoot)({ latchkey, http, ...more }),
  "LatchkeyModule.forRootAsync": (more) => js(LatchkeyModule.forRootAsync)({ useFactory: run, ...more }),
  describeIdempotency: (more) => js(describeIdempotency)({}, { latchkey, http, routes: {}, ...more }),
  "describeIdempotency: a route": (more) =>
    js(describeIdempotency)({}, { latchkey, http, routes: { "GET /": { operation, ...more } } }),
  encryptionCodec: (more) => js(encryptionCodec)({ keys: {}, current: "a", ...more }),
  "settle: target": (more) => settle({ recordId: "x", ...more }, { completed: { body: null } }),
  "settle: settlement": (more) => settle({ recordId: "x" }, { completed: { body: null }, ...more }),
  compareLedger: (more) => js(latchkey.compareLedger)({ effect, objects: [], from: 0, to: 1, ...more }),
  migratePostgres: (more) => js(migratePostgres)(pool, more),
  migratePostgresSql: js(migratePostgresSql),
  migratePglite: (more) => js(migratePglite)({ transaction: run }, more),
  openPglite: (more) => js(openPglite)(class {}, { dataDir: "memory://", ...more }),
  cached: (more) => js(cached)(store, null, { near: true, ...more }),
  routedStore: (more) => js(routedStore)({ route: () => store, stores: () => [store], ...more }),
  "cached: near": (near) => js(cached)(store, null, { near }),
  webhookReceiver: (more) => js(webhookReceiver)(latchkey, operation, { singleTenant: true, ...more }, run),
  mcpProtect: (more) => js(mcpProtect)(latchkey, { singleTenant: true, ...more }),
  mcpServe: (more) => js(mcpServe)(latchkey, { singleTenant: true, ...more }),
  aiSdkProtect: (more) => js(aiSdkProtect)(latchkey, { singleTenant: true, ...more }),
  openaiAgentsProtect: (more) => js(openaiAgentsProtect)(latchkey, { singleTenant: true, ...more }),
  createInbox: (more) => js(createInbox)(latchkey, operation, { ...message, ...more }, run),
  kafkaConsumer: (more) => js(kafkaConsumer)(latchkey, operation, { ...message, ...more }, run),
  "kafkaConsumer: deadLetterTopic": (deadLetterTopic) =>
    js(kafkaConsumer)(latchkey, operation, { ...message, topics: ["t"], deadLetterTopic }, run),
  natsConsumer: (more) => js(natsConsumer)(latchkey, operation, { ...message, ...more }, run),
  rabbitmqConsumer: (more) => js(rabbitmqConsumer)(latchkey, operation, { ...message, ...more }, run),
  kafkaRelay: (more) => js(kafkaRelay)(latchkey, "relay", { producer: {}, ...more }),
  natsRelay: (more) => js(natsRelay)(latchkey, "relay", { jetstream: {}, ...more }),
  rabbitmqRelay: (more) => js(rabbitmqRelay)(latchkey, "relay", { connection: {}, ...more }),
  "deadMessages: list": (more) => js(deadMessages(latchkey).list)(more),
  postgresArchive: (more) => js(postgresArchive)({ client: { query: run }, ...more }),
  postgresArchiveSql: js(postgresArchiveSql),
  effectDispatcher: (more) => js(effectDispatcher)(latchkey, more),
  leaseRescuer: (more) => js(leaseRescuer)(latchkey, more),
  outcomeReconciler: (more) => js(outcomeReconciler)(latchkey, more),
  recordCleaner: (more) => js(recordCleaner)(latchkey, more),
  startWorker: (more) => js(latchkey.startWorker)(more),
  "startWorker: pendingWork": (more) => worker("pendingWork", more),
  "startWorker: effectDispatcher": (more) => worker("effectDispatcher", more),
  "startWorker: leaseRescuer": (more) => worker("leaseRescuer", more),
  "startWorker: outcomeReconciler": (more) => worker("outcomeReconciler", more),
  "startWorker: recordCleaner": (more) => worker("recordCleaner", more),
  ...ofFrameworks,
  ...ofDatabases,
  "createLatchkey: policy": (more) => js(createLatchkey)({ store, policy: { ...ietf, ...more } }),
  "createLatchkey: policy.keyForm": (more) =>
    js(createLatchkey)({ store, policy: { ...ietf, keyForm: { ...ietf.keyForm, ...more } } }),
  "createLatchkey: policy.statuses": (more) =>
    js(createLatchkey)({ store, policy: { ...ietf, statuses: { ...ietf.statuses, ...more } } }),
  "createLatchkey: ports": (more) => js(createLatchkey)({ store, ports: { ...systemPorts, ...more } }),
  "openPglite: ports": (more) =>
    js(openPglite)(class {}, { dataDir: "memory://", ports: { ...systemPorts, ...more } }),
  "cached: ports": (more) => js(cached)(store, null, { near: true, ports: { ...systemPorts, ...more } }),
  "http: key": (key) => fetchAs({ key }),
  "http: fingerprint": (fingerprint) => fetchAs({ fingerprint }),
  "http: fingerprint.body": (more) => fetchAs({ fingerprint: { body: { fields: ["a"], ...more } } }),
  "http: fingerprint.limits": (limits) => fetchAs({ fingerprint: { limits } }),
  "http: requestAge": (more) => fetchAs({ requestAge: { maxMs: 1_000, ...more } }),
};

test.each(Object.entries(factories))("%s refuses an unknown option", async (_name, make) => {
  const made = async () => make({ nonsense: 1 });
  await expect(made()).rejects.toThrow(TypeError);
  await expect(made()).rejects.toThrow('there is no option "nonsense"');
});

test.each([
  ["settle", () => settle({ recordid: "x" }, { completed: {} }), "Did you mean recordId?"],
  ["settle", () => settle({ recordId: "x" }, { complete: {} }), "Did you mean completed?"],
  ["settle", () => settle({ recordId: "x" }, { completed: {}, failed: {} }), "got completed and failed"],
  ["settle", () => settle({ recordId: "x" }, {}), "got none"],
  ["run", () => factories.run?.({ principle: "p" }), "Did you mean principal?"],
  ["consumer", () => factories.natsConsumer?.({ concurency: 1 }), "Did you mean concurrency?"],
  ["worker", () => worker("pendingWork", { batchSize: 1 }), 'no option "batchSize"'],
  ["worker", () => worker("outcomeReconciler", { triesmax: 1 }), "Did you mean triesMax?"],
  ["request age", () => fetchAs({ requestAge: true }), "must be an object (got true)"],
] as const)("%s names what was meant: %#", async (_what, make, sentence) => {
  await expect((async () => make())()).rejects.toThrow(sentence);
});
