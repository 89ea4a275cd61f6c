/** `deliver`, `ack`, `duplicates`: what the adapter passes to the inbox, and when it acknowledges. */
import assert from "node:assert/strict";
import type { BrokerCase } from "./case.ts";
import { stopped } from "./stopped.ts";

const allBytes = Uint8Array.from({ length: 256 }, (_, index) => index);

export const deliveryCases: readonly BrokerCase[] = [
  {
    name: "deliver: a message runs once and is settled",
    async run(context) {
      const { consume, publish, until, rows } = context;
      const consumer = await consume(() => {});
      await publish("a", "b", "c");
      await until("all have run", () => rows().length === 3);
      await stopped(context, consumer);
      const { received, executed, duplicates } = consumer.counts();
      assert.deepEqual([received, executed, duplicates], [3, 3, 0]);
      assert.deepEqual(rows(), ["a", "b", "c"]);
    },
  },
  {
    name: "deliver: bytes that are not text, and the content type, arrive as they were sent",
    async run(context) {
      const { broker, consume, until, rows } = context;
      const seen: unknown[] = [];
      const consumer = await consume(
        ({ message }) => void seen.push([message.contentType, Buffer.from(message.body).toString("hex")]),
        { decode: () => ({ name: "bytes" }) },
      );
      await broker.publish([{ id: "bytes", body: allBytes, contentType: "application/octet-stream" }]);
      await until("it has run", () => rows().length === 1);
      await stopped(context, consumer);
      assert.deepEqual(seen, [["application/octet-stream", Buffer.from(allBytes).toString("hex")]]);
    },
  },
  {
    name: "deliver: no more messages run at once than the adapter was configured for",
    async run(context) {
      const { consume, publish, until, rows, pause } = context;
      let [under, most] = [0, 0];
      const work = async () => {
        under += 1;
        most = Math.max(most, under);
        // Time for further messages to start if the limit were ignored.
        await pause(100);
        under -= 1;
      };
      const consumer = await consume(work, { size: 2 });
      await publish("a", "b", "c", "d", "e", "f");
      await until("all have run", () => rows().length === 6);
      await stopped(context, consumer);
      assert.equal(most, 2, "two at once, and never more");
    },
  },
  {
    name: "ack: a consumer that dies before COMMIT has acknowledged nothing",
    needs: ({ dies }) => dies,
    async run(context) {
      const { consume, publish, hold, until, within, rows } = context;
      const commit = hold("before COMMIT");
      const first = await consume(() => {});
      await publish("a");
      await within("its transaction reaches COMMIT", commit.reached);
      await first.die();
      const second = await consume(() => {});
      await until("another consumer receives it", () => second.counts().received > 0);
      commit.release();
      await until("it is settled", () => second.counts().duplicates === 1);
      await stopped(context, second);
      assert.deepEqual(rows(), ["a"]);
    },
  },
  {
    name: "ack: a message that was running in a consumer that died is delivered again, marked as redelivered",
    needs: ({ dies }) => dies,
    async run(context) {
      const { consume, publish, until, within, rows } = context;
      const begun = Promise.withResolvers<void>();
      const death = Promise.withResolvers<never>();
      const first = await consume(() => {
        begun.resolve();
        return death.promise;
      });
      await publish("a");
      await within("it has begun", begun.promise);
      await first.die();
      const runs: boolean[] = [];
      const second = await consume(({ message }) => void runs.push(message.redelivered));
      await until("another consumer receives it", () => second.counts().received > 0);
      death.reject(new Error("its process was killed"));
      await until("it has run", () => rows().length === 1);
      await stopped(context, second);
      assert.deepEqual(
        runs,
        [true],
        "an earlier delivery may have begun; the inbox counts deaths by this flag",
      );
    },
  },
  {
    name: "ack: if a consumer dies between COMMIT and acknowledgement, another acknowledges the message without running it",
    needs: ({ dies }) => dies,
    async run(context) {
      const { consume, publish, hold, until, within, rows } = context;
      const commit = hold("after COMMIT");
      let runs = 0;
      const work = () => void runs++;
      const first = await consume(work);
      await publish("a");
      await within("it is committed", commit.reached);
      await first.die();
      commit.release();
      const second = await consume(work);
      await until("it is a duplicate", () => second.counts().duplicates === 1);
      await stopped(context, second);
      assert.deepEqual([runs, rows(), second.counts().executed], [1, ["a"], 0]);
    },
  },
  {
    name: "duplicates: are acknowledged without running",
    async run(context) {
      const { consume, publish, until, rows } = context;
      let runs = 0;
      const consumer = await consume(() => void runs++);
      await publish("a");
      await until("it has run", () => rows().length === 1);
      await publish("a", "a");
      await until("both are duplicates", () => consumer.counts().duplicates >= 2);
      await stopped(context, consumer);
      const { received, executed, duplicates } = consumer.counts();
      assert.deepEqual([runs, received, executed, duplicates], [1, 3, 1, 2]);
    },
  },
  {
    name: "in progress: a copy is held while the first runs, instead of being redelivered in a loop",
    async run(context) {
      const { consume, publish, until, pause, rows } = context;
      const gate = Promise.withResolvers<void>();
      const consumer = await consume(() => gate.promise);
      await publish("a", "a");
      await until("both have arrived", () => consumer.counts().received >= 2);
      // Time for a copy to be redelivered in a loop.
      await pause(500);
      const during = consumer.counts().received;
      gate.resolve();
      await until("the copy is a duplicate", () => consumer.counts().duplicates >= 1);
      await stopped(context, consumer);
      const { received, executed, duplicates, givenBack } = consumer.counts();
      assert.deepEqual([during, received, executed, duplicates, givenBack], [2, 2, 1, 1, 0]);
      assert.deepEqual(rows(), ["a"]);
    },
  },
];
