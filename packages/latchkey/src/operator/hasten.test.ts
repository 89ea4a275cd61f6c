/** Operators forget keys and have records tried again, on a real Postgres. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  begin,
  callInDoubt,
  complete,
  jsonAnswer,
  keyOf,
  openPlace,
  ownerOf,
  type Place,
} from "../../../../test/cli/arrange.ts";
import type { LatchkeyEvent } from "../index.ts";
import { createLatchkey } from "../index.ts";
import { systemPorts } from "../ports.ts";
import { createOperator, type Hastened, type Operator } from "./index.ts";

const ada = { operator: "ada", reason: "the deploy was undone" };
const bob = { operator: "bob", reason: "ticket 12" };

let place: Place;
let operator: Operator;
const events: LatchkeyEvent[] = [];
beforeAll(async () => {
  place = await openPlace();
  const onEvent = (event: LatchkeyEvent) => events.push(event);
  operator = createOperator({ latchkey: createLatchkey({ store: place.store, onEvent }) });
});
afterAll(() => place.close());

/** The events about a record, without the hashes of the audit row and the key. */
const reported = (id: string) =>
  events.flatMap((event) =>
    "recordId" in event && event.recordId === id && "actor" in event ? [[event.type, event.actor]] : [],
  );

async function seen(id: string) {
  const found = await operator.inspect(id);
  if (found.kind !== "record") throw new Error(`${id} is ${found.kind}`);
  return { recordId: found.report.id, attempt: found.report.attempt, report: found.report };
}

function refusalOf(hastened: Hastened) {
  if (hastened.kind !== "refused") throw new Error("it was done");
  return `${hastened.title} ${hastened.detail}`;
}

describe("forgetting and retrying", () => {
  test("a failed record is forgotten once, with an audit row; the key runs as new", async () => {
    const key = keyOf("forget-failed");
    const { id, fence } = await begin(place, key);
    const retention = { retentionMs: 3_600_000, forgetAfterMs: 7_200_000 };
    const end = { event: "fail", answer: jsonAnswer(500, {}), retention, errorCode: null } as const;
    expect(await place.store.end(key, id, fence, end)).not.toBeNull();
    const life = await seen(id);
    expect(await operator.forget(life, ada, { dryRun: true })).toMatchObject({ kind: "done", audit: null });
    expect((await seen(id)).report.audit).toEqual([]);
    const both = await Promise.all([operator.forget(life, ada), operator.forget(life, bob)]);
    expect(both.map(({ kind }) => kind).sort()).toEqual(["done", "refused"]);
    const done = both.find(({ kind }) => kind === "done");
    expect(done).toMatchObject({ record: { id, state: "failed" } });
    expect((await seen(id)).report.audit).toMatchObject([
      { id: done && "audit" in done ? done.audit : "", event: "forget", proof: "operator" },
    ]);
    expect(reported(id), "by who was faster, once, and not for the dry run").toEqual([
      ["forgotten", both[0]?.kind === "done" ? "ada" : "bob"],
    ]);
    expect(events.find((event) => "recordId" in event && event.recordId === id)).toMatchObject({
      operation: key.scope,
      tenant: key.tenant,
      keyHash: expect.stringMatching(/^[0-9a-f]+$/u),
    });
    const { record, now } = await place.store.read(key);
    expect(record === null || ("forgetAt" in record && record.forgetAt <= now)).toBe(true);
  });

  test("a completed record is refused unless mayRunAgain is set", async () => {
    const key = keyOf("forget-completed");
    const record = await begin(place, key);
    await complete(place, ownerOf(key, record), jsonAnswer(201, {}));
    const life = await seen(record.id);
    expect(refusalOf(await operator.forget(life, ada))).toContain(
      "Its first answer with status 201 is stored.",
    );
    expect((await seen(record.id)).report.audit).toEqual([]);
    expect(await operator.forget(life, ada, { mayRunAgain: true })).toMatchObject({ kind: "done" });
    expect((await seen(record.id)).report.audit).toMatchObject([{ event: "forget", actor: "ada" }]);
  });

  test("an unknown is looked up again, and neither forgotten nor changed", async () => {
    const { id } = await callInDoubt(place, keyOf("retry-unknown"));
    const life = await seen(id);
    expect(refusalOf(await operator.forget(life, ada, { mayRunAgain: true }))).toContain("not known");
    expect(life.report.reconcileAfter).toBeNull();
    expect(await operator.retry(life, ada)).toMatchObject({ kind: "done", record: { state: "unknown" } });
    const { report } = await seen(id);
    expect(report).toMatchObject({ state: "unknown", audit: [{ event: "retry", actor: "ada" }] });
    expect(report.reconcileAfter).not.toBeNull();
    expect(reported(id)).toEqual([["retried", "ada"]]);
  });

  test("another attempt, a running record and a missing one are refused; a blank reason throws", async () => {
    const { id } = await begin(place, keyOf("retry-running"));
    expect(refusalOf(await operator.retry({ recordId: id, attempt: 2 }, ada))).toContain("has continued");
    expect(refusalOf(await operator.retry({ recordId: id, attempt: 1 }, ada))).toContain("under way");
    const none = { recordId: systemPorts.random.uuid(0), attempt: 1 };
    expect(refusalOf(await operator.forget(none, ada))).toContain("no longer exists");
    for (const act of [operator.retry, operator.forget]) {
      await expect(act({ recordId: id, attempt: 1 }, { operator: "ada", reason: " " })).rejects.toThrow(
        "reason must be a non-empty string",
      );
    }
  });
});
