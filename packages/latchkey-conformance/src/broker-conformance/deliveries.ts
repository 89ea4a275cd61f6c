/** `deliver`, `ack`, `duplicates`: what a message is handed over as, and when it is acknowledged. */
import assert from "node:assert/strict";
import type { BrokerCase } from "./case.ts";
import { stopped } from "./stopped.ts";

const allBytes = Uint8Array.from({ length: 256 }, (_, index) => index);

export const deliveryCases: readonly BrokerCase[] = [
  {
    name: "deliver: a message runs once, and is settled",
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
    name: "deliver: bytes that are no text, and their type, arrive as they were sent",
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
    name: "deliver: no more are under way than the adapter was told",
    async run(context) {
      const { consume, publish, until, rows, pause } = context;
      let [under, most] = [0, 0];
      const work = async () => {
        under += 1;
        most = Math.max(most, under);
        // Time for more to come where more may.
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
      await within("its transaction comes to COMMIT", commit.reached);
      await first.die();
      const second = await consume(() => {});
      await until("another is given it", () => second.counts().received > 0);
      commit.release();
      await until("it is settled", () => second.counts().duplicates === 1);
      await stopped(context, second);
      assert.deepEqual(rows(), ["a"]);
    },
  },
  {
    name: "ack: what a consumer that dies had begun comes again, and says that it was delivered before",
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
      await until("another is given it", () => second.counts().received > 0);
      death.reject(new Error("its process was killed"));
      await until("it has run", () => rows().length === 1);
      await stopped(context, second);
      assert.deepEqual(runs, [true], "an earlier delivery may have begun: deaths are counted by it");
    },
  },
  {
    name: "ack: a consumer that dies between COMMIT and acknowledgement: another acknowledges it, and runs nothing",
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
    name: "duplicates: are acknowledged, and nothing runs",
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
    name: "in progress: a copy is held while the first runs, and is not delivered again and again",
    async run(context) {
      const { consume, publish, until, pause, rows } = context;
      const gate = Promise.withResolvers<void>();
      const consumer = await consume(() => gate.promise);
      await publish("a", "a");
      await until("both are there", () => consumer.counts().received >= 2);
      // Time for a copy to go round in circles.
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
