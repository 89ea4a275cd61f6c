/** Defects that the proof has found, each with the test that keeps it from coming back. */
import type { Finding } from "./ledger.ts";

export const findings: readonly Finding[] = [
  {
    tier: "review",
    what: "a circuit that another service of the process had opened refused requests after an outage",
    test: "test/faults/commit.test.ts",
  },
  {
    tier: "P6",
    what: "neighbours of an effect that killed its dispatcher were counted as sent, and became dead letters",
    test: "test/faults/outbox-fleet.all.test.ts",
  },
  {
    tier: "P6",
    what: "a start of a send that came late was counted as a send",
    test: "packages/latchkey/src/workers/effect-dispatcher.test.ts",
  },
  {
    tier: "P6",
    what: "claims of ordered effects became slower with the square of what was queued",
    test: "test/postgres/plans.test.ts",
  },
  {
    tier: "P6",
    what: "a process that ran only a worker exited silently",
    test: "test/postgres/lone-worker.test.ts",
  },
  {
    tier: "P6",
    what: "an answer whose COMMIT had not reached the standby was replayed, and lost at the failover",
    test: "test/postgres/standby.test.ts",
  },
  {
    tier: "P6",
    what: "an admission in doubt counted as confirmed after a read: its handler started, and the failover lost the reservation",
    test: "test/proof/p6-failover/regressions.test.ts",
  },
  {
    tier: "P6",
    what: "an owner whose outcome had been settled by others returned its own answer instead of the stored one",
    test: "test/proof/p6-failover/regressions.test.ts",
  },
  {
    tier: "P6",
    what: "a connection that ended as it began ended the process",
    test: "test/proof/p6-soak/dead-on-arrival.test.ts",
  },
  {
    tier: "P2",
    what: "a phase that opened late committed behind the release of its key, and ran again",
    test: "test/proof/p2-random/findings.test.ts",
  },
  {
    tier: "P2",
    what: "a COMMIT in doubt that came back late started a heartbeat for an attempt that was over, and kept its key for ever",
    test: "test/proof/p2-random/findings.test.ts",
  },
  {
    tier: "P4",
    what: "a commit decided on a record that had meanwhile ended and been forgotten repeated the work",
    test: "test/proof/p4-statements/p4-statements.all.test.ts",
  },
  {
    tier: "P3",
    what: "on Postgres an answer outlived its time while its key waited for an effect",
    test: "packages/latchkey-conformance/src/store-conformance/outbox-cleaning.ts",
  },
  {
    tier: "P3",
    what: "stores answered the end of a claim after an operator's decision differently, and listed dead leases in another order",
    test: "packages/latchkey-conformance/src/store-conformance/give-up.ts",
  },
  {
    tier: "P3",
    what: "on the memory store, and on Redis, a request ran again whose handler had ended its transaction, when the record that it was to replace was forgotten meanwhile",
    test: "packages/latchkey-conformance/src/store-conformance/record-lost-transaction.ts",
  },
  {
    tier: "P3",
    what: "a life whose transaction was lost could be found by its id on the memory store but not on Postgres",
    test: "packages/latchkey-conformance/src/store-conformance/lookup-by-id.ts",
  },
  {
    tier: "P3",
    what: "on the memory store a transaction that was repeated after its life put an effect that was under way back to its beginning",
    test: "packages/latchkey-conformance/src/store-conformance/outbox-enqueue.ts",
  },
  {
    tier: "P3",
    what: "on Redis a downstream key requested twice was listed twice, and a repeated call succeeded where other stores refuse it",
    test: "test/redis/same-calls.all.test.ts",
  },
  {
    tier: "review",
    what: "on a Redis that had become a replica, a guard that failed there counted as a definite answer",
    test: "packages/latchkey/src/stores/redis.settings.test.ts",
  },
  {
    tier: "review",
    what: "a reservation that a Redis client had kept during an outage was made afterwards, for a request that had been refused",
    test: "packages/latchkey/src/stores/redis.errors.test.ts",
  },
  {
    tier: "P2",
    what: "a COMMIT in doubt that was looked up after its record had been forgotten counted as rolled back, and the work ran again",
    test: "test/proof/p2-random/findings.test.ts",
  },
  {
    tier: "review",
    what: "a message became a dead letter because of crashes that other messages in the same process had caused",
    test: "packages/latchkey/src/messages/inbox.test.ts",
  },
  {
    tier: "review",
    what: "a copy of a record that had been forgotten came back into the process's memory with a reading that was under way",
    test: "packages/latchkey/src/caching/cached.test.ts",
  },
  {
    tier: "review",
    what: "a cached copy was replayed after its expiry, by as long as Redis's reply took or its servers' clocks differed",
    test: "packages/latchkey/src/caching/cached.test.ts",
  },
  {
    tier: "review",
    what: "of two sends of one message that RabbitMQ returned together the second counted as delivered, although no queue had taken it",
    test: "packages/latchkey/src/messages/rabbitmq.test.ts",
  },
  {
    tier: "review",
    what: "a start or end of a send that a cancelled wait for the standby had left on the primary alone counted as durable after a read",
    test: "test/postgres/standby.test.ts",
  },
  {
    tier: "review",
    what: "a cancelled wait for the standby was confirmed by a write that waited for nothing, or whose own warning was hidden",
    test: "test/postgres/standby.test.ts",
  },
  {
    tier: "review",
    what: "a COMMIT in doubt that was looked up after a new life had replaced its record counted as rolled back",
    test: "test/proof/p2-random/findings.test.ts",
  },
  {
    tier: "review",
    what: "a message became a dead letter for killing its process while its last attempt was still running in a transaction elsewhere",
    test: "packages/latchkey/src/messages/inbox.test.ts",
  },
  {
    tier: "review",
    what: "a message became a dead letter for killing its process when short outages of the store had kept its returns from being written",
    test: "packages/latchkey/src/messages/inbox.test.ts",
  },
  {
    tier: "P2",
    what: "a phase that outlived its attempt's limit took a new token to look up its COMMIT: the end was refused, and the caller got in_progress for a key that no process ran until the lease ended",
    test: "test/proof/p2-random/findings.test.ts",
  },
  {
    tier: "review",
    what: "a step that `run` had left behind committed, or sent, while its attempt was freeing the key: the next request did it again",
    test: "packages/latchkey/src/execution/steps/steps.abandoned.test.ts",
  },
  {
    tier: "review",
    what: "a settlement or decision that was repeated after a cancelled wait for the standby was reported as done, although a failover could undo it",
    test: "test/postgres/standby.test.ts",
  },
  {
    tier: "review",
    what: "a caller whose attempt's end was in doubt got in_progress because of its own attempt, which had ended",
    test: "packages/latchkey/src/execution/steps/steps.abandoned.test.ts",
  },
  {
    tier: "review",
    what: "a JSON message nested some thousand levels deep was redelivered by RabbitMQ without pause or end, and never became a dead letter",
    test: "packages/latchkey/src/messages/rabbitmq.test.ts",
  },
  {
    tier: "review",
    what: "a message whose dead letter could not be written ran again and again, and one that kills its process never became one where it is held for less than half a second",
    test: "packages/latchkey/src/messages/inbox.held.test.ts",
  },
];
