/** Effects come back byte for byte and character for character. */
import assert from "node:assert/strict";
import { newKey, newToken } from "./arrange.ts";
import { oddBytes, oddTexts } from "./bytes.ts";
import type { StoreCase } from "./case.ts";
import { hex } from "./check.ts";
import {
  claimOf,
  deliveryEnds,
  effectNow,
  endOnly,
  enqueue,
  leavesEffect,
  outboxOf,
  retryAt,
  sameEffect,
  startOnly,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

const byteCases: readonly StoreCase[] = oddBytes.map(([what, bytes]) => ({
  name: `effect bytes: an input and a result of ${what} come back unchanged`,
  needs: withTransactions,
  async run(context) {
    const effect = await enqueue(context, { input: Uint8Array.from(bytes) });
    const wants = [{ effect: effect.effect, limit: 1 }];
    const [claimed] = await outboxOf(context.store).claim(wants, newToken(), 60_000);
    assert.ok(claimed);
    assert.ok(hex(claimed.input) === hex(bytes), "every byte of the input must be the same");
    const started = await startOnly(context, claimed);
    await endOnly(context, { ...claimOf(started), event: "keep_result", result: Uint8Array.from(bytes) });
    const { result } = await effectNow(context, started);
    assert.ok(result !== null && hex(result) === hex(bytes), "every byte of the result must be the same");
  },
}));

const textCases: readonly StoreCase[] = oddTexts.map(([what, text]) => ({
  name: `effect bytes: ${what} in names, keys and codes come back unchanged`,
  needs: withTransactions,
  async run(context) {
    const key = newKey({ tenant: text, scope: text, key: text });
    const names = { effect: text, downstreamKey: text, step: text, aggregate: text, ordered: true };
    const effect = await enqueue(context, names, key);
    assert.deepEqual({ ...effect, ...names, ...key }, { ...effect });
    const [claimed] = await outboxOf(context.store).claim([{ effect: text, limit: 1 }], newToken(), 60_000);
    assert.ok(claimed);
    const { fence } = claimed;
    sameEffect(claimed, { ...effect, state: "claimed", fence }, "claimed by its name");
    await endOnly(context, { ...claimOf(claimed), event: "reopen", downstreamKey: `${text}2` });
    const [again] = await outboxOf(context.store).claim([{ effect: text, limit: 1 }], newToken(), 60_000);
    assert.equal(again?.downstreamKey, `${text}2`);
    await endOnly(context, { ...retryAt(again ?? claimed, 60_000), ...{ errorCode: text } });
    const filter = { state: "pending", effect: text, tenant: text, limit: 9, after: null } as const;
    const [listed] = await outboxOf(context.other).list(filter);
    assert.deepEqual([listed?.id, listed?.lastErrorCode], [effect.id, text]);
  },
}));

export const outboxBytesCases: readonly StoreCase[] = [
  ...byteCases,
  ...textCases,
  {
    name: "effect bytes: no aggregate and an empty one are different",
    needs: withTransactions,
    async run(context) {
      const none = await enqueue(context, { aggregate: null });
      const empty = await enqueue(context, { aggregate: "" });
      assert.deepEqual([none.aggregate, empty.aggregate], [null, ""]);
    },
  },
  {
    name: "effect bytes: tokens that differ in one digit are different, even beyond the precision of a number",
    needs: withTransactions,
    async run(context) {
      for (const token of ["0".repeat(32), "f".repeat(32), `${"9".repeat(31)}1`, "00e1".padEnd(32, "0")]) {
        const { effect, ...enqueued } = await enqueue(context);
        const [claimed] = await outboxOf(context.store).claim([{ effect, limit: 1 }], token, 60_000);
        assert.equal(claimed?.fence.token, token);
        const near = `${token.slice(0, 31)}${token.endsWith("0") ? "1" : "0"}`;
        const stale = deliveryEnds.deliver({ id: enqueued.id, fence: { attempt: 1, token: near } });
        const ended = await leavesEffect(context, enqueued, "a similar token", () =>
          outboxOf(context.store).end([stale]),
        );
        assert.deepEqual(ended, []);
        await endOnly(context, deliveryEnds.deliver({ id: enqueued.id, fence: { attempt: 1, token } }));
      }
    },
  },
];
