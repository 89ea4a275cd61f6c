/** Histories of one key with many concurrent callers: the result must be as if the calls had come one after the other. */
import assert from "node:assert/strict";
import type { RecordKey, Store } from "latchkey";
import { decide, type InProgressRecord } from "latchkey/internal";
import {
  completion,
  defaultTerms,
  fingerprint,
  leaseMs,
  newId,
  newKey,
  newLife,
  newToken,
  readRecord,
  second,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { race } from "./check.ts";

const callers = 12;
/** More rounds than a caller can lose in one case. */
const roundsMax = 200;

/** Admission as a request does it: read, decide, one guarded write; starts again after a lost race. */
async function admit(
  store: Store<unknown>,
  key: RecordKey,
  print = fingerprint(),
): Promise<InProgressRecord | string> {
  const token = newToken();
  for (let round = 0; round < roundsMax; round += 1) {
    const { record, now } = await store.read(key);
    const request = { operation: key.scope, fingerprint: print, principal: "principal-1", token };
    const verdict = decide(
      record,
      { ...request, reuse: "reject", leaseEnd: "rerun", attemptsMax: 1_000 },
      now,
    );
    switch (verdict.kind) {
      case "answer":
        return verdict.decision.kind;
      case "create": {
        const life = newLife(key, { id: newId(), fingerprint: print, fence: { attempt: 1, token } });
        const created = await store.create(life, verdict.replaces, defaultTerms);
        if (created !== null) return created;
        break;
      }
      case "take_over": {
        const taken = await store.takeOver(key, verdict.guard, print, token, defaultTerms);
        if (taken !== null) return taken;
        break;
      }
      default:
        assert.fail(`this history must not lead to ${verdict.kind}`);
    }
  }
  assert.fail("a caller must not lose every race");
}

async function admitAll(context: CaseContext, key: RecordKey): Promise<readonly InProgressRecord[]> {
  const results = await race(context, callers, (store) => admit(store, key));
  return results.filter((result) => typeof result !== "string");
}

export const raceCases: readonly StoreCase[] = [
  {
    name: "races: of many submissions one runs, and all later ones replay it",
    async run(context) {
      const key = newKey();
      const results = await race(context, callers, async (store, index) => {
        const admitted = await admit(store, key);
        if (typeof admitted === "string") return admitted;
        const ended = await store.end(key, admitted.id, admitted.fence, completion(`by ${index}`));
        return ended === null ? "lost" : `by ${index}`;
      });
      const owners = results.filter((result) => result.startsWith("by "));
      assert.equal(owners.length, 1);
      const record = await readRecord(context, key);
      assert.ok(record.state === "completed" && record.answer !== null);
      assert.equal(new TextDecoder().decode(record.answer), owners[0]);
      const others = results.filter((result) => result !== owners[0]);
      assert.ok(
        others.every((result) => result === "in_progress" || result === "replay"),
        others.join(),
      );
    },
  },
  {
    name: "races: of two bodies under one key, one runs and the other is misuse",
    async run(context) {
      const key = newKey();
      const results = await race(context, callers, (store, index) =>
        admit(store, key, fingerprint(index % 2 === 0 ? 1 : 2)),
      );
      const owner = results.find((result) => typeof result !== "string");
      assert.ok(owner !== undefined && typeof owner !== "string");
      const ownBody = owner.fingerprint.digest[0] === 1 ? 0 : 1;
      for (const [index, result] of results.entries()) {
        if (result === owner) continue;
        assert.equal(result, index % 2 === ownBody ? "in_progress" : "key_misuse");
      }
    },
  },
  {
    name: "races: an attempt that dies repeatedly has one owner each time",
    async run(context) {
      const key = newKey();
      for (let attempt = 1; attempt <= 5; attempt += 1) {
        const owners = await admitAll(context, key);
        assert.deepEqual(
          owners.map(({ fence }) => fence.attempt),
          [attempt],
        );
        await context.advance(leaseMs + second);
      }
    },
  },
  {
    name: "races: a life that is released and begun again repeatedly has one owner each time",
    async run(context) {
      const key = newKey();
      const ids = new Set<string>();
      for (let life = 1; life <= 5; life += 1) {
        const [owner, ...others] = await admitAll(context, key);
        assert.ok(owner !== undefined && others.length === 0);
        ids.add(owner.id);
        await context.store.end(key, owner.id, owner.fence, { event: "release" });
      }
      assert.equal(ids.size, 5);
    },
  },
];
