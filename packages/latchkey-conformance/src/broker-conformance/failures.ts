/** `give back`, `dead`, `cut`: messages that do not succeed at once. */
import assert from "node:assert/strict";
import { MessageRefused } from "latchkey";
import type { BrokerCase, Work } from "./case.ts";
import { drained, stopped } from "./stopped.ts";

/** The broker's timers and clocks may differ from ours by some milliseconds. */
const clockSlackMs = 25;

/** The pause before a redelivery: longer than a process on a busy machine stands still, and short enough to wait for. */
const pauseMs = 1_500;

/** Fails the first run of `name`, and records when each delivery arrived. */
function failingOnce(name: string) {
  const runs: { readonly at: number; readonly redelivered: boolean }[] = [];
  return {
    runs,
    work(one: Work) {
      if (one.name !== name) return;
      runs.push({ at: performance.now(), redelivered: one.message.redelivered });
      if (runs.length === 1) throw new Error("not yet");
    },
  };
}

export const failureCases: readonly BrokerCase[] = [
  {
    name: "give back: the message is delivered again, not before its pause is over, marked as redelivered",
    async run(context) {
      const { consume, publish, until, rows, events } = context;
      const { runs, work } = failingOnce("a");
      const consumer = await consume(work, { backoffMs: pauseMs });
      await publish("a");
      await until("it has run again", () => rows().length === 1);
      await stopped(context, consumer);
      const given = events.find((event) => event.type === "message_given_back");
      assert.ok(given, "it must have been given back");
      const [first, second, ...more] = runs;
      assert.ok(first && second && more.length === 0, "it must have run twice");
      const passedMs = second.at - first.at;
      assert.ok(
        passedMs >= given.afterMs - clockSlackMs,
        `after ${passedMs} ms; not before ${given.afterMs} ms`,
      );
      assert.equal(
        second.redelivered,
        true,
        "an earlier delivery may have begun; the inbox counts deaths by this flag",
      );
      assert.deepEqual(rows(), ["a"]);
    },
  },
  {
    name: "give back: other messages continue during the pause",
    async run(context) {
      const { consume, publish, until, rows } = context;
      const { runs, work } = failingOnce("a");
      const consumer = await consume(work, { backoffMs: pauseMs, size: 2 });
      await publish("a");
      await until("it has failed", () => runs.length === 1);
      await publish("b", "c");
      await until("the others have run", () => rows().includes("b") && rows().includes("c"));
      assert.equal(runs.length, 1, "must not run during the pause");
      await until("it has run again", () => rows().length === 3);
      await stopped(context, consumer);
    },
  },
  {
    name: "dead: is settled, and other messages continue",
    async run(context) {
      const { broker, consume, publish, until, rows, dead } = context;
      const consumer = await consume(({ name }) => {
        if (name === "refused") throw new MessageRefused();
        if (name === "poison") throw new Error("it never succeeds");
      });
      const unreadable = { id: "unreadable", body: Buffer.from("{"), contentType: "text/plain" };
      await broker.publish([unreadable]);
      await publish("refused", "poison", "b");
      await until("three are dead", async () => (await dead()).length === 3);
      await until("the other one has run", () => rows().length === 1);
      await stopped(context, consumer);
      assert.deepEqual(await dead(), ["failed", "refused", "undecodable"]);
      assert.deepEqual([consumer.counts().dead, rows()], [3, ["b"]]);
    },
  },
  {
    name: "dead: is also set aside by the broker",
    needs: ({ putsAside }) => putsAside,
    async run(context) {
      const { broker, consume, publish, until, rows, dead } = context;
      assert.ok(broker.putAside, "the driver must have putAside, as declared");
      const consumer = await consume(({ name }) => {
        if (name.startsWith("refused")) throw new MessageRefused();
      });
      await publish("refused-1", "refused-2", "b");
      await until("two are dead", async () => (await dead()).length === 2);
      await until("the other one has run", () => rows().length === 1);
      await stopped(context, consumer);
      await until("both are set aside", async () => (await broker.putAside?.()) === 2);
    },
  },
  {
    name: "cut: if the connection breaks while a message runs, the message runs once and the consumer continues",
    needs: ({ cuts }) => cuts,
    async run(context) {
      const { consume, publish, until, rows } = context;
      const [begun, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const consumer = await consume(async ({ name }) => {
        if (name !== "a") return;
        begun.resolve();
        await gate.promise;
      });
      await publish("a");
      await context.within("it has begun", begun.promise);
      await consumer.cut();
      gate.resolve();
      await publish("b");
      await until("both have run", () => rows().length === 2);
      await drained(context, consumer);
      assert.deepEqual(rows(), ["a", "b"]);
    },
  },
];
