/** Bugs of idempotency libraries, and of what stands around them, that were reported in public: none is ours. */
import type { KnownBug } from "./known-bugs.ts";

const src = "packages/latchkey/src";
const at = (file: string, title: string) => ({ file, title });

export const idempotencyBugs: readonly KnownBug[] = [
  {
    bug: "A duplicate that is refused deletes the record of the request that still runs",
    where: "aws-powertools/powertools-lambda-typescript#5675",
    shownBy: [at("test/faults/races.test.ts", "one body: one start; all others get 409 or the same answer")],
    why: "Only the owner of the fence can end an attempt, and a refusal writes nothing.",
  },
  {
    bug: "A reservation without a deadline is taken over at once, and two run",
    where: "aws-powertools/powertools-lambda-typescript#5678",
    shownBy: [
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "a duplicate may retry when the lease ends, if it is not renewed",
      ),
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "many at once: one starts, the others get in_progress",
      ),
    ],
    why: "Every reservation has a lease, by the store's clock.",
  },
  {
    bug: "After a time-out the interrupted work is simply run again",
    where: "aws-powertools/powertools-lambda-python#8049",
    shownBy: [
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "that outlives the attempt's limit: stopped, unknown",
      ),
    ],
    why: "`leaseEnd` is `reconcile` unless the operation says otherwise.",
  },
  {
    bug: "A process that dies leaves its key in progress until the retention is over",
    where:
      "VilledeMontreal/express-idempotency#32, aws-powertools/powertools-lambda#53, aws-powertools/powertools-lambda-python#1038, #4759, ikyriak/IdempotentAPI#37, snok/asgi-idempotency-header#16, pathosDev/actor-ts#984",
    shownBy: [
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "that has ended is taken over under rerun; the frozen owner answers with the winner's answer",
      ),
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "that has ended means unknown under reconcile; the frozen owner settles its own, since no other attempt has begun",
      ),
    ],
    why: "The lease and the retention are separate times.",
  },
  {
    bug: "A handler that throws after its effect is run again",
    where: "pathosDev/actor-ts#984",
    shownBy: [
      at(
        `${src}/execution/lease/run-lease.test.ts`,
        "leaves the outcome unknown, and its error reaches the caller",
      ),
    ],
  },
  {
    bug: "A lock is freed only by res.json: an error, a stream or a file keeps it",
    where: "KanishJebaMathewM/Truxify#4622, #5087",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/failures.ts`,
        "failures: a throw rolls back, the framework answers it, and the key runs again",
      ),
      at(
        `${src}/http/express/express.buffering.test.ts`,
        "a file is stored completely even if the client has hung up",
      ),
    ],
  },
  {
    bug: "An owner whose lock has expired deletes its successor's lock",
    where: "KanishJebaMathewM/Truxify#4623, OptimalBits/bull#308",
    shownBy: [
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "that has ended and was settled by others no longer belongs to the frozen owner",
      ),
      at(
        `packages/latchkey-conformance/src/store-conformance/renew.ts`,
        "renew: a lease that has ended is not revived",
      ),
    ],
    why: "A fence is a number and a random token.",
  },
  {
    bug: "A waiter gets the lock and runs the work again without looking at the record",
    where: "KanishJebaMathewM/Truxify#6898",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/refusals.ts`,
        "refusals: a duplicate that is allowed to wait gets the first answer",
      ),
    ],
    why: "Each try goes through the whole admission again.",
  },
  {
    bug: "Two simultaneous requests both find nothing, and both run",
    where:
      "idempot-dev/idempot-js#182, LabsCrypt/remitlend#1624, square1-io/laravel-idempotency#1, jcagarcia/grape-idempotency#3",
    shownBy: [
      at("test/faults/races.test.ts", "one body: one start; all others get 409 or the same answer"),
      at(
        `packages/latchkey-conformance/src/store-conformance/races.ts`,
        "races: of many submissions one runs, and all later ones replay it",
      ),
    ],
    why: "Admission is one atomic step of the store.",
  },
  {
    bug: "Another user with the same key gets the first one's answer",
    where: "paveg/hono-idempotency#126, irzix/nestjs-agentic#126, arun0009/idempotent#217",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/refusals.ts`,
        "refusals: two tenants with the same key are independent",
      ),
      at(
        `packages/latchkey-conformance/src/http-conformance/refusals.ts`,
        "refusals: another principal of the tenant learns nothing",
      ),
    ],
    why: "The tenant has no default.",
  },
  {
    bug: "The same key with another body gets the first answer",
    where: "josipmusa/idempotency4j#12",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/refusals.ts`,
        "refusals: a key with another body is misuse and changes nothing",
      ),
    ],
  },
  {
    bug: "The client disconnects, the answer is not stored, and the retry runs again",
    where: "fullstackhero/dotnet-starter-kit#1333, caura-ai/caura#1629",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/answers.ts`,
        "answers: if the client disconnects, the handler finishes and the retry gets its answer",
      ),
    ],
  },
  {
    bug: "A replay cannot be distinguished from a first answer",
    where:
      "KeeperHub/keeperhub#1849, ikyriak/IdempotentAPI#85, ietf-wg-httpapi/idempotency#46, aws-powertools/powertools-lambda-java#1780",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/answers.ts`,
        "answers: the first caller gets every header, the second only those that belong to the answer",
      ),
    ],
    why: "Only replays have `Idempotent-Replayed: true`.",
  },
  {
    bug: "A replay has lost Location or its content type, or its status",
    where:
      "VSN2015/concerns_on_rails#47, chuanghiduoc/nestjs-fastify-nx#128, rajadilipkolli/my-spring-boot-experiments#2629",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/answers.ts`,
        "answers: the first caller gets every header, the second only those that belong to the answer",
      ),
      at(`${src}/execution/lease/run-lease.test.ts`, "is stored and replayed without running again"),
    ],
  },
  {
    bug: "A compressed answer is replayed without its encoding",
    where: "ikyriak/IdempotentAPI#6",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/answers.ts`,
        "answers: a compressed body is replayed compressed",
      ),
    ],
  },
  {
    bug: "A streamed answer is stored as {}, or used up before it is stored",
    where: "pathosDev/actor-ts#1308",
    shownBy: [
      at(
        `packages/latchkey-conformance/src/http-conformance/answers.ts`,
        "answers: one of 20 MB reaches the first caller complete",
      ),
      at(
        `packages/latchkey-conformance/src/http-conformance/answers.ts`,
        "answers: no byte is sent before the store has confirmed",
      ),
    ],
    why: "The answer is stored as the bytes that were sent; a stream is read to its end first.",
  },
  {
    bug: "Work that exceeds its time limit is not stopped, and runs a second time next to itself",
    where: "timgit/pg-boss#555",
    shownBy: [
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "that cannot be renewed stops its owner before another owner could take it",
      ),
    ],
  },
  {
    bug: "An owner that has lost a job marks it as failed after it has finished",
    where: "OptimalBits/bull#1416, taskforcesh/bullmq#3183",
    shownBy: [
      at(
        `${src}/execution/steps/owned-attempt.leases.test.ts`,
        "lost: the owner can neither run a phase or call, nor complete, nor answer with its own result",
      ),
    ],
  },
  {
    bug: "Every look at a crashed owner's lock renews it, and the job starves",
    where: "agenda/agenda#1749",
    shownBy: [
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "is not taken over without limit: an operation that kills its owner ends in unknown",
      ),
    ],
    why: "Looking at a lease does not renew it.",
  },
  {
    bug: "Named statements collide behind a pooler in transaction mode",
    where: "porsager/postgres#172, #547, rust-postgres/rust-postgres#1054",
    shownBy: [at(`${src}/sql/pg.test.ts`, "without names nothing stays prepared")],
    why: "With `namedStatements: false` no statement has a name.",
  },
  {
    bug: "A transaction that is run again keeps the state of its first run",
    where: "medplum/medplum#9811, matrix-org/synapse#12184",
    shownBy: [
      at(
        `${src}/execution/transaction/run-transaction.handlers.test.ts`,
        "that runs again starts without the retention it set before",
      ),
      at(
        `${src}/http/express/express.buffering.test.ts`,
        "a run that is rolled back and repeated starts from a clean response",
      ),
    ],
  },
  {
    bug: "A commit whose reply was lost is applied again",
    where: "apache/couchdb#3569",
    shownBy: [
      at(
        `${src}/execution/transaction/run-transaction.database.test.ts`,
        "leaves a COMMIT in doubt that turns out committed: the answer is sent, nothing runs again",
      ),
    ],
  },
  {
    bug: "A webhook that comes twice is booked twice",
    where: "woocommerce/woocommerce-gateway-stripe#3326, pay-rails/pay#612, dj-stripe/dj-stripe#1239",
    shownBy: [
      at(`${src}/messages/inbox.test.ts`, "runs once, however often and under whichever spelling it comes"),
      at(
        `${src}/messages/inbox.test.ts`,
        "is held and admitted again by timer, and is a duplicate when the first one has committed",
      ),
    ],
  },
  {
    bug: "Two code paths of one order each make their own key, and the customer is charged twice",
    where: "woocommerce/woocommerce-gateway-stripe#489",
    shownBy: [at(`${src}/effects/downstream-key.test.ts`, "never change: %j")],
    why: "The downstream key is derived from the record, not made by the code that calls.",
  },
  {
    bug: "After a rebalance messages run again, and offsets of others' partitions are committed",
    where: "tulios/kafkajs#1046, SOHU-Co/kafka-node#787",
    shownBy: [
      at(
        `${src}/messages/kafka/kafkajs.test.ts`,
        "while a message runs the group is notified; a rebalance waits for it, but not for long",
      ),
      at(`${src}/messages/inbox.test.ts`, "that has committed before the last death is a duplicate"),
    ],
  },
  {
    bug: "After a failover of Redis two owners hold one lock",
    where: "samcook/RedLock.net#11, sewenew/redis-plus-plus#44",
    shownBy: [
      at(
        "test/redis/losses.all.test.ts",
        "two primaries: the same key may run on both, and when one gives way, its owner cannot complete",
      ),
      at(
        "test/redis/split-brain.test.ts",
        "with min-replicas-to-write a primary that its replica has left begins nothing and ends nothing",
      ),
    ],
    why: "Redis cannot rule it out, and the store declares that. Put operations that cannot tolerate it on Postgres.",
  },
];
