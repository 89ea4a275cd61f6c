/** More reports about idempotency libraries and durable steps, read while their suites were carried over. */
import type { KnownBug } from "./known-bugs.ts";

const src = "packages/latchkey/src";
const http = `packages/latchkey-conformance/src/http-conformance`;
const at = (file: string, title: string) => ({ file, title });

export const peerBugs: readonly KnownBug[] = [
  {
    bug: "The losers of a race get 503, and all of them retry",
    where: "idempot-dev/idempot-js#181, ikyriak/IdempotentAPI#23, #34, gofiber/fiber#3058",
    shownBy: [at("test/faults/races.test.ts", "one body: one start; all others get 409 or the same answer")],
  },
  {
    bug: "Recovery overwrites a record that is live or completed",
    where:
      "aws-powertools/powertools-lambda-typescript#5714, #5717, aws-powertools/powertools-lambda-python#8386",
    shownBy: [
      at(
        `${src}/execution/steps/owned-attempt.leases.test.ts`,
        "lost to another attempt without its own clock noticing: the fence rejects phase, call and end",
      ),
      at(`${src}/execution/steps/owned-attempt.worker.test.ts`, "begins no new life if the record is gone"),
    ],
  },
  {
    bug: "The store drops a running record to make room",
    where: "paveg/hono-idempotency#89",
    shownBy: [
      at(
        `${src}/stores/redis.settings.test.ts`,
        "a policy that drops any key is refused, before anything is written, and not once it is mended",
      ),
      at(
        `${src}/stores/redis.settings.test.ts`,
        "a policy that drops what expires never drops a record: Redis refuses writes instead",
      ),
    ],
  },
  {
    bug: "The effect is committed, the record of it is lost, and the retry does it again",
    where: "ikyriak/IdempotentAPI#57, adcontextprotocol/adcp-client#569",
    shownBy: [at(`${http}/served.ts`, "served: writes and answer are stored together, once")],
    why: "Under `transaction` both are one commit.",
  },
  {
    bug: "A finished step runs again because the report of its end was lost",
    where: "vercel/workflow#2675, recoupable/app#1918",
    shownBy: [
      at(
        `${src}/execution/steps/owned-attempt.calls.test.ts`,
        "is not sent again after an end whose reply was lost: the end may arrive during the next send",
      ),
    ],
  },
  {
    bug: "After its lease has ended, a committed write is repeated",
    where: "Noveum/orbit#407, #455",
    shownBy: [
      at(
        `${src}/execution/lease/run-lease.leases.test.ts`,
        "that has ended means unknown under reconcile; the frozen owner settles its own, since no other attempt has begun",
      ),
    ],
    why: "`leaseEnd` is `reconcile` unless the operation says otherwise.",
  },
  {
    bug: "Recovery treats sent and unsent work in the same way",
    where: "triggerdotdev/trigger.dev#4627, MaxGhenis/openmessage#102",
    shownBy: [
      at(
        `${src}/execution/steps/owned-attempt.calls.test.ts`,
        "left by a dead attempt is in doubt for the next one, whether that reaches the call or not",
      ),
      at(
        `${src}/execution/steps/owned-attempt.calls.test.ts`,
        "that provably did not happen is tried again, and then throws the effect's error",
      ),
    ],
  },
  {
    bug: "Changed code continues from a recovery point of the old code",
    where: "fractaledmind/acidic_job#90",
    shownBy: [
      at(
        `${src}/execution/steps/owned-attempt.steps.test.ts`,
        "of another version end unknown before anything runs",
      ),
    ],
  },
  {
    bug: "A client that is advised to send a new key does the work a second time",
    where: "KeeperHub/keeperhub#1922",
    shownBy: [
      at(
        `${http}/refusals.ts`,
        "refusals: an unknown outcome is not retryable, and says that a new key is not safe",
      ),
      at("test/clients/keys.test.ts", "after %s it keeps the key unless another is safe"),
    ],
  },
  {
    bug: "A replay gives one user another user's answer",
    where:
      "apache/polaris#3803, kortix-ai/suna#5267, josipmusa/idempotency4j#9, RamaAditya49/titen#37, svix/diom#481",
    shownBy: [
      at(`${http}/refusals.ts`, "refusals: another principal of the tenant learns nothing"),
      at(`${http}/refusals.ts`, "refusals: two tenants with the same key are independent"),
    ],
  },
  {
    bug: "Stored answers contain secrets in clear",
    where: "josipmusa/idempotency4j#15, adcontextprotocol/adcp-client#1856",
    shownBy: [
      at(
        `${src}/execution/steps/owned-attempt.steps.test.ts`,
        "every stored value passes the codec, in the context of its record",
      ),
      at(`${src}/encryption.test.ts`, "no bit of it can be changed, and nothing cut off or added"),
    ],
  },
  {
    bug: "A replay sets the first caller's cookie again",
    where: "granit-fx/granit-dotnet#1151",
    shownBy: [
      at(
        `${http}/answers.ts`,
        "answers: the first caller gets every header, the second only those that belong to the answer",
      ),
    ],
  },
  {
    bug: "An answer that is too large to keep makes the handler run again",
    where: "gofiber/fiber#4287",
    shownBy: [
      at(
        `${http}/answers.ts`,
        "answers: one too large to store leaves a tombstone that says so, and never runs again",
      ),
    ],
  },
  {
    bug: "A duplicate cannot wait for the answer, and must retry",
    where:
      "aws-powertools/powertools-lambda-python#2490, KanishJebaMathewM/Truxify#4696, ietf-wg-httpapi/idempotency#11, #42",
    shownBy: [
      at(`${http}/refusals.ts`, "refusals: a duplicate that is allowed to wait gets the first answer"),
    ],
  },
  {
    bug: "A temporary error is replayed forever",
    where: "mahendraHegde/node-idempotency#36, KeeperHub/keeperhub#1840",
    shownBy: [
      at(`${http}/failures.ts`, "failures: a 5xx rolls back and is released"),
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the title as it stands in its file.
      at(`${http}/failures.ts`, "failures: ${status} is temporary and is released"),
    ],
  },
  {
    bug: "The same JSON with its members in another order is another request",
    where: "apache/fineract#5674",
    shownBy: [
      at(
        `${src}/fingerprint/fingerprint.test.ts`,
        "order of members makes no difference, __proto__ and toJSON are ordinary",
      ),
    ],
  },
  {
    bug: "The body is not compared, and another request gets the first one's answer",
    where: "aws-powertools/powertools-lambda-typescript#5705",
    shownBy: [at(`${http}/refusals.ts`, "refusals: a key with another body is misuse and changes nothing")],
  },
  {
    bug: "A client cannot learn how long a key is remembered",
    where:
      "ietf-wg-httpapi/idempotency#35, #49, agentic-commerce-protocol/agentic-commerce-protocol#97, apache/iceberg#18070",
    shownBy: [
      at(
        `${http}/options.ts`,
        "options: a stored answer says how long it is kept, the first time and on replay; others do not",
      ),
    ],
  },
  {
    bug: "The record of a log line cannot be found",
    where: "aws-powertools/powertools-lambda-python#5620, Junirezz/YieldVault-RWA#466, simstudioai/sim#5908",
    shownBy: [
      at("test/cli/inspect.test.ts", "finds a record by its id and by a downstream key"),
      at("test/cli/inspect.test.ts", "finds a record by the keyHash of an event, with the service's secret"),
    ],
  },
  {
    bug: "Metrics do not distinguish a replay from a first execution",
    where:
      "transferwise/idempotence4j#7, arun0009/idempotent#141, paveg/hono-idempotency#59, aws-powertools/powertools-lambda-java#515",
    shownBy: [at(`${src}/telemetry/edge-events.test.ts`, "these tests take every edge of the table")],
    why: "Each answer and each edge of the state machine is an event of its own type.",
  },
];
