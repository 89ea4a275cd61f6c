/** The options of `createLatchkey`, of adapters and of inboxes. A new option needs a text here. */
import { resolveHttpOptions } from "../../packages/latchkey/src/http/protocol/http-options.ts";
import type { LatchkeyOptions } from "../../packages/latchkey/src/latchkey.ts";
import {
  type InboxOptions,
  resolveInboxOptions,
} from "../../packages/latchkey/src/messages/inbox-options.ts";
import type { KafkaConsumerOptions } from "../../packages/latchkey/src/messages/kafka.ts";
import type { NatsConsumerOptions } from "../../packages/latchkey/src/messages/nats.ts";
import type { RabbitmqConsumerOptions } from "../../packages/latchkey/src/messages/rabbitmq.ts";
import { ietf } from "../../packages/latchkey/src/operations/policies/ietf.ts";
import { resolveCircuit } from "../../packages/latchkey/src/time/circuit-breaker.ts";
import { type OptionText, renderOptionTable, renderTable } from "./sections.ts";

const required = "required";
const none = "none";
const ofPolicy = "the policy's";

type Texts<Name extends PropertyKey> = Readonly<Record<Name, OptionText>>;

/** Every option of `createLatchkey`. */
export function renderLatchkeyOptions(): string {
  const { failureThreshold, openMs } = resolveCircuit();
  const options: Texts<keyof LatchkeyOptions<unknown>> = {
    store: [required, "where records are kept: [Stores](stores.md)"],
    policy: [
      `\`${ietf.name}\``,
      "which published practice is followed where practices differ: [four policies](#four-policies)",
    ],
    strict: [
      "true outside production (`NODE_ENV`)",
      "whether a 2xx answer of a handler that has not used its `tx` is the error [`tx-unused`](errors.md#errors), or only the event `tx_unused`; under [optimistic admission](optimistic-admission.md) it is always the error",
    ],
    limits: [
      none,
      "limits for each tenant: `newKeys`, `lookups`, `activeKeys` ([HTTP](http.md#limits-for-each-tenant))",
    ],
    circuitBreaker: [
      `${failureThreshold} failures in a row, ${openMs / 1_000} s`,
      "after how many failures, and for how long, requests are refused without calling the store ([HTTP](http.md#when-the-store-is-away)); `false`: never",
    ],
    onEvent: [none, "is called for every [event](events.md); must not throw"],
    tracing: [none, "makes spans of attempts, calls, deliveries and messages: [Traces](traces.md)"],
    codec: [none, "what stored answers, inputs and results pass through: [Encryption](encryption.md)"],
    logSecret: [
      "random for each process",
      "secret of the hashes that stand for keys in events and logs: [Keys](keys.md#what-is-kept)",
    ],
    keySecret: [
      none,
      "keeps clients' keys out of the store: [Keys](keys.md#what-is-kept), before you set, change or remove it",
    ],
    allowCredentialIdentities: [
      "`false`",
      "accepts tenants and principals that look like credentials: [HTTP](http.md#order-of-checks)",
    ],
    summary: ["`false`", "the operations' default for `summary`: [Data](data.md#what-a-request-asked-for)"],
    redact: [
      none,
      "what is kept of summaries, and shown of stored values in the console: [Data](data.md#what-a-request-asked-for)",
    ],
    ports: ["the system's", "clock and randomness, for tests"],
  };
  return renderOptionTable(options, {});
}

/** Every option of an HTTP adapter. */
export function renderHttpOptions(): string {
  const { rules } = resolveHttpOptions({ singleTenant: true });
  const options: Texts<keyof typeof rules | "tenant" | "singleTenant" | "principal"> = {
    tenant: [
      required,
      "the customer or account of a request, from authentication: [Order of checks](#order-of-checks)",
    ],
    singleTenant: ["`false`", "in place of `tenant`: all requests share one"],
    principal: [none, "the caller within the tenant; another one's key is refused"],
    header: "the header with the key",
    key: "which keys are accepted: [Keys](keys.md#what-is-accepted)",
    fingerprint: [
      ofPolicy,
      "what makes two requests the same: `auto`, `raw`, `parsed`, or `{ body, headers, secret, limits }` ([The body](#the-body))",
    ],
    bodyLimitBytes: "the largest body; larger ones get 413",
    requestAge:
      "refuses requests whose first attempt is too long ago: [Retries that come too late](#retries-that-come-too-late)",
    methods: "which methods a mount over a whole app protects",
    markIgnored:
      "a mount over a whole app answers a key on what it does not protect with `Idempotency-Status: ignored`",
    echoKey: "sends the key back with every answer",
    replayHeader: "the header that marks a replay",
    expiresHeader: "the header that says until when the answer can be replayed: [The answer](#the-answer)",
    storedHeaders: [
      none,
      "headers of answers that are stored beside [the usual ones](adapters/README.md#the-headers-that-a-replay-has)",
    ],
    inProgress: [
      ofPolicy,
      "what a duplicate of a running request gets: 409, 429, or 202 with `statusPath` ([details](#a-duplicate-of-a-running-request))",
    ],
    statusPath:
      "the path of the status resource, without the id: [Work that is done later](#work-that-is-done-later)",
    renderProblem: [ofPolicy, "puts problems into the form your clients know; status and headers stay"],
    problemBase: "the beginning of a problem's `type`; the code follows it",
    problemDocs: [
      "`problemBase` if it is an address, otherwise the header's specification",
      'the beginning of the address in the `Link` with `rel="describedby"` of a problem; the code follows it',
    ],
    shouldRetryHeaders: "sends `Stripe-Should-Retry` and `X-Should-Retry` with problems",
  };
  return renderOptionTable(options, rules);
}

/** Every option of an inbox. */
export function renderInboxOptions(): string {
  const options: Texts<keyof InboxOptions<never>> = {
    tenant: [required, "the tenant of a message: a text, or a function of the message"],
    key: ["the message's id", "what identifies a message; the same for every delivery and every copy"],
    decode: ["the body as JSON", "makes the handler's `input`; if it throws, the message is a dead letter"],
    failuresMax: "after how many failed runs a message is a dead letter",
    killsMax: "after how many counted deaths of its process a message is a dead letter",
    holdMs: "how long a message is held while it runs elsewhere or the store is unavailable; over Kafka 1 s",
    backoffMs: "pause after the first failed run; it doubles, with jitter",
    backoffMaxMs: "the longest pause",
    batchSize: "how many messages may share a transaction, 2 to 64: [Batches](#batches)",
    keepMs: "how long the counts of a message that does not come again are kept: [Data](data.md)",
  };
  return renderOptionTable(options, resolveInboxOptions({ tenant: "any" }));
}

type Added<Options> = Readonly<
  Record<Exclude<keyof Options, keyof InboxOptions<never>>, readonly [standard: string, decides: string]>
>;

/** What the consumer of each broker takes in addition to the options of an inbox. */
export function renderConsumerOptions(): string {
  const rabbitmq: Added<RabbitmqConsumerOptions<never>> = {
    connection: [required, "a `Connection` of `rabbitmq-client`"],
    queue: [required, "the queue"],
    prefetch: ["20, or twice `batchSize`", "how many messages run or are held at once"],
    consumer: [none, "further options for the client, such as `queueOptions`, `exchanges`, `queueBindings`"],
    deadLetterExchange: ["`false`", "dead letters also go to the queue's dead-letter exchange"],
  };
  const nats: Added<NatsConsumerOptions<never>> = {
    consumer: [required, "a pull consumer with explicit acknowledgements"],
    source: ["the message's subject", "the `source` of messages and dead letters"],
    concurrency: ["20, or twice `batchSize`", "how many messages run or are held at once"],
    terminate: ["`false`", "dead letters are terminated, for which the server publishes an advisory"],
    workingMs: [
      "5 s",
      "how often the consumer tells the server that it is still working on a message; keep it well below `ack_wait`",
    ],
  };
  const kafka: Added<KafkaConsumerOptions<never>> = {
    consumer: [required, "a consumer that nothing else uses"],
    topics: [required, "the topics"],
    idFrom: ['`{ header: "message-id" }`', "where a message's id is: in a header, or `offset`"],
    concurrency: ["20", "how many partitions run a message at once"],
    fromBeginning: ["`true`", "whether a group without a committed offset begins with the oldest message"],
    deadLetterTopic: [none, "`{ producer, topic }`: dead letters are also sent there"],
  };
  const rows = Object.entries({
    rabbitmqConsumer: rabbitmq,
    natsConsumer: nats,
    kafkaConsumer: kafka,
  }).flatMap(([consumer, options]) =>
    Object.entries(options).map(([name, [standard, decides]]) => [
      `\`${consumer}\``,
      `\`${name}\``,
      standard,
      decides,
    ]),
  );
  return renderTable(["Consumer", "Option", "Default", "What it decides"], rows);
}
