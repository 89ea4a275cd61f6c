/** Bugs of queues, outboxes and durable execution that were found in public, and what keeps each from being ours. */
import type { ShownBy } from "../threats/threats.ts";

export interface KnownBug {
  readonly bug: string;
  /** Project and issue, pull request or release. */
  readonly where: string;
  /** Empty: it cannot happen here, and `why` says so. */
  readonly shownBy: readonly ShownBy[];
  readonly why?: string;
}

const src = "packages/latchkey/src";
const cases = `packages/latchkey-conformance/src/store-conformance`;
const at = (file: string, title: string): ShownBy => ({ file, title });

export const knownBugs: readonly KnownBug[] = [
  {
    bug: "Two processes with one executor id recover the same work",
    where: "dbos-transact-ts #1205, #1207",
    shownBy: [
      at(`${cases}/races.ts`, "races: an attempt that dies repeatedly has one owner each time"),
      at("test/postgres/worker.test.ts", "several workers: every effect once, in the order of its aggregate"),
    ],
    why: "There are no ids to configure: each claim has a token of its own.",
  },
  {
    bug: "Recovery takes over work that was started in the same millisecond",
    where: "dbos-transact-java #477, #488, #491",
    shownBy: [
      at(`${cases}/outbox-rescue.ts`, "outbox rescue: at the end of the lease, not a millisecond earlier"),
      at(`${cases}/renew.ts`, "renew: a lease that has ended is not revived"),
    ],
  },
  {
    bug: "Recovered work stays pending between its steps, and blocks others",
    where: "dbos-transact-py #805",
    shownBy: [
      at("test/faults/deferred-kills.all.test.ts", "$stopAt ($operation): another goes on"),
      at(`${src}/workers/worker.test.ts`, "is resumed when its worker has died"),
    ],
  },
  {
    bug: "The rescuer overwrites what was completed or claimed again",
    where: "river #1302, #1373",
    shownBy: [
      at(
        "test/postgres/outbox.test.ts",
        "a rescue skips a row that another transaction is changing, and one whose claim has been ended since",
      ),
      at(
        `${cases}/outbox-rescue.ts`,
        "outbox rescue: an effect that has been claimed again since is left alone",
      ),
    ],
  },
  {
    bug: "The rescuer discards work of kinds that its process does not know",
    where: "river #1105",
    shownBy: [
      at(
        `${src}/workers/effect-dispatcher.test.ts`,
        "leaves effects that are not defined here to other processes",
      ),
      at(
        `${cases}/outbox-rescue.ts`,
        "outbox rescue: covers every definition and both kinds of claims at once",
      ),
    ],
  },
  {
    bug: "A full page of rows that cannot be rescued hides later ones",
    where: "river #1318",
    shownBy: [
      at(
        "test/postgres/outbox.test.ts",
        "to be rescued does not stop the others, and is freed once it can be",
      ),
      at(
        `${src}/workers/effect-dispatcher.loop.test.ts`,
        "free claims of dead dispatchers page by page, however many there are",
      ),
    ],
  },
  {
    bug: "Jobs are stuck as running for months, and nothing reports it",
    where: "river #1258",
    shownBy: [
      at(`${src}/workers/worker.test.ts`, "shows when each service last ran, and whether the store answers"),
    ],
    why: "Everything that is claimed has a lease, and any worker rescues it. The metric `waiting.oldest_age` shows how long the oldest has waited, and [an alert](alerts.md#latchkeyworkerbehind) fires on it.",
  },
  {
    bug: "Long work is run again while it still runs",
    where: "hexpm #1825",
    shownBy: [
      at("test/postgres/heartbeats.test.ts", "a pool full of other work cannot make a lease run out"),
      at(`${src}/execution/steps/owned-attempt.leases.test.ts`, "is kept through long phases and calls"),
    ],
  },
  {
    bug: "The work of a dead process is not freed when its name is used again",
    where: "oban #862",
    shownBy: [
      at(
        `${src}/stores/pglite/process-identity.test.ts`,
        "another process under the same id is not the one that had it before",
      ),
    ],
    why: "Nothing else depends on a process's name.",
  },
  {
    bug: "Two inserts of one unique key: one caller gets an error that says nothing",
    where: "oban #1505, #764",
    shownBy: [at("test/faults/races.test.ts", "one body: one start; all others get 409 or the same answer")],
  },
  {
    bug: "Rows that move between partitions fail the rescue with 40001",
    where: "oban #1030",
    shownBy: [],
    why: "No table is partitioned.",
  },
  {
    bug: "A claim in batches breaks the order of a serial queue",
    where: "graphile-worker #621, #622",
    shownBy: [
      at(
        "test/postgres/outbox.test.ts",
        "of an ordered aggregate two claimers have one effect at a time, in order",
      ),
      at(
        `${cases}/outbox-order.ts`,
        "outbox order: many claims at once never claim two effects of one aggregate",
      ),
    ],
  },
  {
    bug: "After a crash jobs and queues are locked for hours, or for good",
    where: "graphile-worker #222, #204, #254, #449",
    shownBy: [
      at("test/faults/outbox-fleet.all.test.ts", "all delivered or dead, once, in order"),
      at("test/faults/outbox-kills.all.test.ts", "nothing is sent afterwards by any process"),
    ],
  },
  {
    bug: "One row makes the claim fail, and stops the queue",
    where: "pg-boss #535, #536, #492, #522",
    shownBy: [
      at("test/faults/outbox-rows.test.ts", "all the others are delivered, once"),
      at(
        "test/postgres/outbox.test.ts",
        "to be claimed does not stop the others, and is left alone for a while",
      ),
    ],
  },
  {
    bug: "One at a time was asked for, and two ran when a claim expired",
    where: "pg-boss #581",
    shownBy: [
      at(
        "test/postgres/outbox.test.ts",
        "an expired claim is fenced: it neither starts, ends nor finishes a delivery",
      ),
      at(
        `${src}/workers/effect-dispatcher.limits.test.ts`,
        "no more sends run than the effect's concurrency",
      ),
    ],
  },
  {
    bug: "After a hiccup of the heartbeat a job runs many times, and finished ones are marked as failed",
    where: "solid_queue #761, #589, #778",
    shownBy: [
      at(`${src}/workers/effect-dispatcher.test.ts`, "and comes back after its send: it writes nothing"),
      at(
        `${src}/execution/steps/owned-attempt.leases.test.ts`,
        "lost: the owner can neither run a phase or call, nor complete, nor answer with its own result",
      ),
    ],
  },
  {
    bug: "The recovery picks a row between its insert and its mark: mail is sent twice, or all of it again",
    where: "wolverine #587, #585, #565",
    shownBy: [
      at(
        "test/postgres/outbox.test.ts",
        "a delivery that is rescued while its COMMIT is on the way loses, and leaves no row",
      ),
      at(
        `${src}/workers/effect-dispatcher.test.ts`,
        "a start whose reply is late does not send, because the send could outlast the lease",
      ),
    ],
  },
  {
    bug: "The handler's rows and the mark that it has run are two commits",
    where: "wolverine #1677",
    shownBy: [
      at(
        "test/faults/outbox-commits.all.test.ts",
        "at any moment of many: whatever was answered is there, and nothing is by halves",
      ),
    ],
  },
  {
    bug: "An id that is used again fails with a unique violation",
    where: "Altinn storage #788",
    shownBy: [
      at(
        `${cases}/outbox-enqueue.ts`,
        "enqueue: a repeated transaction with effects is lost, and its effects are stored once",
      ),
      at(`${src}/messages/inbox.test.ts`, "runs once, however often and under whichever spelling it comes"),
    ],
  },
  {
    bug: "Messages are published twice; several deliverers break their order",
    where: "MassTransit #3791, #3512, #6145",
    shownBy: [
      at("test/faults/outbox-fleet.all.test.ts", "all delivered or dead, once, in order"),
      at(
        `${src}/workers/effect-dispatcher.loop.test.ts`,
        "effects of an aggregate are sent one after the other by any dispatcher, even after failures",
      ),
    ],
  },
  {
    bug: "Two copies at once both run the handler",
    where: "NServiceBus #6583",
    shownBy: [
      at(
        `${src}/messages/inbox.test.ts`,
        "is held and admitted again by timer, and is a duplicate when the first one has committed",
      ),
      at("test/faults/races.test.ts", "one body: one start; all others get 409 or the same answer"),
    ],
  },
  {
    bug: "Several instances retry the same message, unless an option forbids it",
    where: "CAP #1144, #1257, #1271, #1390, #1710",
    shownBy: [
      at(`${cases}/outbox-claim.ts`, "outbox claim: many at once claim each effect once"),
      at(`${src}/workers/effect-dispatcher.loop.test.ts`, "never send each other's claimed effects"),
    ],
  },
  {
    bug: "A row counts as old while the transaction that writes it still runs",
    where: "CAP #1419",
    shownBy: [
      at(
        "test/postgres/outbox.test.ts",
        "a late commit before what is under way in its aggregate waits for that",
      ),
      at(
        `${cases}/outbox-claim.ts`,
        "outbox claim: the lease is counted from the claim, by the store's time",
      ),
    ],
  },
  {
    bug: "Work that is submitted again while it is under way is done twice",
    where: "spring-modulith #321, #663, #926, #1051",
    shownBy: [
      at("test/cli/dead.test.ts", "what is not dead, or not there, is refused, and the others are decided"),
      at(
        `${cases}/outbox-decide.ts`,
        "outbox decide: a repetition does not redrive an effect that has died again since",
      ),
    ],
  },
  {
    bug: "A cursor over ids skips what commits late",
    where: "watermill #311, eventuous #222, patchlevel #615",
    shownBy: [
      at(
        "test/postgres/outbox.test.ts",
        "an effect whose transaction commits late is delivered, although later ones were before",
      ),
      at(
        "test/faults/outbox-rows.test.ts",
        "is delivered, although later rows were delivered long before it",
      ),
    ],
  },
  {
    bug: "A cursor over transaction ids stops after a restore",
    where: "watermill #576",
    shownBy: [],
    why: "There is no cursor: undelivered effects are found by their state.",
  },
  {
    bug: "A recreated replication slot loses events; rows at one position are skipped after a restart",
    where: "debezium #3970, #7531, #3620",
    shownBy: [
      at("test/postgres/outbox.test.ts", "has the columns that Debezium's outbox event router reads"),
    ],
    why: "The outbox is polled, not read from the log. A service that reads it with Debezium has Debezium's promises.",
  },
  {
    bug: "Replication shows a row that SELECT does not show yet",
    where: "pg-transactional-outbox 0.6.0, 0.6.4",
    shownBy: [
      at("test/faults/outbox-hints.test.ts", "polls go on while no hints arrive, and hints come back"),
    ],
    why: "A hint says only that there may be work; what there is comes from a query.",
  },
  {
    bug: "Concurrent steps run more than once",
    where: "inngest #2775, #2907",
    shownBy: [
      at(`${src}/execution/steps/owned-attempt.steps.test.ts`, "run one after the other, each name once"),
    ],
  },
  {
    bug: "An integration sends events without an id: three tickets instead of one",
    where: "mastra #13629",
    shownBy: [
      at(
        `${src}/messages/rabbitmq.test.ts`,
        "a relay publishes under the downstream key, and is not content with a message that no queue takes",
      ),
      at(
        `${src}/effects/downstream-key.test.ts`,
        "differ with every part, and parts cannot run into each other",
      ),
    ],
  },
  {
    bug: "A de-duplication id is made of the wrong field",
    where: "restate #1723",
    shownBy: [at(`${src}/effects/downstream-key.test.ts`, "never change: %j")],
  },
  {
    bug: "A second submit is a conflict, and callers have to attach by hand",
    where: "restate #5128",
    shownBy: [at(`${cases}/races.ts`, "races: of many submissions one runs, and all later ones replay it")],
  },
  {
    bug: "Lost wake-ups; deadlocks by the order of locks; writes of stale runs",
    where: "absurd 0.0.7, 0.1.0, 0.1.1",
    shownBy: [
      at("test/faults/outbox-hints.test.ts", "polls go on while no hints arrive, and hints come back"),
      at("test/proof/p4-statements/play.ts", "deadlock among Latchkey's own statements"),
      at(
        `${src}/execution/steps/owned-attempt.leases.test.ts`,
        "lost to another attempt without its own clock noticing: the fence rejects phase, call and end",
      ),
    ],
  },
  {
    bug: "Any error of the provider is stored as final; a lock is a timestamp without a token; two enqueuers send twice",
    where: "rocket-rides-atomic",
    shownBy: [
      at(
        `${src}/execution/steps/owned-attempt.calls.test.ts`,
        "a refusal that run lets through is the final answer; any other error of the provider is not",
      ),
      at(`${cases}/outbox-end.ts`, "is refused to anyone but the claim"),
    ],
  },
];
