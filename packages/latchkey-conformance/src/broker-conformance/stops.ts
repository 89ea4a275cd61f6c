/** `stop`: waits for running messages, gives back held ones, and receives nothing more. */
import assert from "node:assert/strict";
import type { BrokerCase } from "./case.ts";
import { stopped } from "./stopped.ts";

export const stopCases: readonly BrokerCase[] = [
  {
    name: "stop: waits until running messages are committed and settled",
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
      assert.equal(early, false, "it must wait");
      await stopped(context, consumer);
      assert.deepEqual([rows(), consumer.counts().executed], [["a"], 1]);
    },
  },
  {
    name: "stop: gives back held messages at once, for other consumers",
    async run(context) {
      const { consume, publish, until, within, rows } = context;
      const gate = Promise.withResolvers<void>();
      const first = await consume(() => gate.promise);
      await publish("a", "a");
      await until("both have arrived", () => first.counts().received === 2);
      const stopping = first.stop();
      await until("the copy is given back", () => first.counts().givenBack === 1);
      gate.resolve();
      await within("it stops", stopping);
      const second = await consume(() => {});
      await until("another consumer has acknowledged it", () => second.counts().duplicates === 1);
      await stopped(context, second);
      assert.deepEqual(rows(), ["a"]);
    },
  },
  {
    name: "stop: receives nothing more, and leaves the rest to other consumers",
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
