/** A deferred operation of two calls, as the processes here have it. */
import type { Latchkey } from "../../packages/latchkey/src/index.ts";

const day = 24 * 60 * 60 * 1_000;

/** `send` is the other side; it gets the step and the key of its call. */
export function defineReport(latchkey: Latchkey<never>, send: (step: string, key: string) => Promise<void>) {
  const effect = latchkey.effect("report.send", {
    deduplication: "provider",
    dedupeWindowMs: day,
    execute: async ({ step }: { step: string }, { key }) => {
      await send(step, key);
      return { sent: step };
    },
  });
  return latchkey.operation("report", {
    execution: "deferred",
    version: "1",
    leaseMs: 1_500,
    retentionMs: 3_000,
    async run({ name }: { name: string }, attempt) {
      const first = await attempt.call("first", effect, { step: "first" });
      const second = await attempt.call("second", effect, { step: "second" });
      return { status: 201, body: { name, steps: [first.sent, second.sent] } };
    },
  });
}
