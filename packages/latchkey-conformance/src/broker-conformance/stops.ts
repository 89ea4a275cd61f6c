/** `stop`: what runs is waited for, what is held is given back, and nothing more is taken. */
import assert from "node:assert/strict";
import type { BrokerCase } from "./case.ts";
import { stopped } from "./stopped.ts";

export const stopCases: readonly BrokerCase[] = [
  {
    name: "stop: waits until what runs is committed and settled",
    async run(context) {
      const { consume, publish, within, pause, rows } = context;
      const [begun, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const consumer = await consume(() => {
        begun.resolve();
        return gate.promise;
      });
      await publish("a");
      await within("it has begun", begun.promise);
      let over = false;
      const stopping = consumer.stop().then(() => {
        over = true;
      });
      await pause(300);
      const early = over;
      gate.resolve();
      await within("it stops", stopping);
      assert.equal(early, false, "it waits");
      await stopped(context, consumer);
      assert.deepEqual([rows(), consumer.counts().executed], [["a"], 1]);
    },
  },
  {
    name: "stop: gives back at once what is held, for others",
    async run(context) {
      const { consume, publish, until, within, rows } = context;
      const gate = Promise.withResolvers<void>();
      const first = await consume(() => gate.promise);
      await publish("a", "a");
      await until("both are there", () => first.counts().received === 2);
      const stopping = first.stop();
      await until("the copy is given back", () => first.counts().givenBack === 1);
      gate.resolve();
      await within("it stops", stopping);
      const second = await consume(() => {});
      await until("another has acknowledged it", () => second.counts().duplicates === 1);
      await stopped(context, second);
      assert.deepEqual(rows(), ["a"]);
    },
  },
  {
    name: "stop: takes nothing more, and leaves the rest to others",
    async run(context) {
      const { consume, publish, within, until, pause, rows } = context;
      const [begun, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const first = await consume(
        () => {
          begun.resolve();
          return gate.promise;
        },
        { size: 1 },
      );
      await publish("a", "b", "c");
      await within("one has begun", begun.promise);
      const stopping = first.stop();
      gate.resolve();
      await within("it stops", stopping);
      const { received } = first.counts();
      await publish("d");
      await pause(300);
      assert.deepEqual([received, first.counts().received, rows()], [1, 1, ["a"]]);
      const second = await consume(() => {});
      await until("the rest has run", () => rows().length === 4);
      await stopped(context, second);
      assert.deepEqual(rows(), ["a", "b", "c", "d"]);
    },
  },
];
