/** `messages`: tallies and dead letters of the inbox. Stores without support for an inbox pass. */
import assert from "node:assert/strict";
import type {
  MessageCount,
  MessageFacts,
  MessageFilter,
  MessageLetter,
  MessageSupport,
  MessageTally,
} from "latchkey/internal";
import { hour, minute, newId, newToken, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter } from "./check.ts";

function newMessage(change: Partial<MessageFacts> = {}): MessageFacts {
  const digest = `${newToken()}${newToken()}`;
  return { digest, source: "orders", operation: "shipments.create", tenant: "t", key: "k", ...change };
}

function newLetter(change: Partial<MessageLetter> = {}): MessageLetter {
  return {
    id: newId(),
    reason: "undecodable",
    contentType: "application/json",
    payload: Uint8Array.of(0, 255, 13, 10, 0),
    ...change,
  };
}

const start: MessageCount = { starts: 1, returns: 0, failures: 0, errorCode: null, keepMs: hour };
const failed: MessageCount = { starts: 0, returns: 1, failures: 1, errorCode: "handler-threw", keepMs: hour };
const everything = { operation: null, tenant: null, limit: 100, after: null };
const tally = (change: Partial<MessageTally> = {}): MessageTally => ({
  state: "watched",
  starts: 0,
  returns: 0,
  failures: 0,
  lastErrorCode: null,
  ...change,
});

/** A case on the store and its second instance; does nothing if there is no inbox. */
function messageCase(
  name: string,
  run: (first: MessageSupport, second: MessageSupport, context: CaseContext) => Promise<void>,
): StoreCase {
  return {
    name: `messages: ${name}`,
    async run(context) {
      const { store, other } = context;
      if (store.messages !== null && other.messages !== null)
        await run(store.messages, other.messages, context);
    },
  };
}

async function listed(support: MessageSupport, filter: Partial<MessageFilter> = {}) {
  return (await support.list({ ...everything, ...filter })).map(({ id }) => id);
}

export const messageCases: readonly StoreCase[] = [
  messageCase(
    "a tally adds up what both instances count, and returns the last error",
    async (first, second) => {
      const facts = newMessage();
      assert.equal(await first.find(facts.digest), null);
      assert.deepEqual(await first.count(facts, start, newId()), tally({ starts: 1 }));
      await second.count(facts, failed, newId());
      const answered = await first.count(facts, start, newId());
      const all = tally({ starts: 2, returns: 1, failures: 1, lastErrorCode: "handler-threw" });
      assert.deepEqual(answered, all, "what a count returns");
      assert.deepEqual(await second.find(facts.digest), all, "what is found");
    },
  ),
  messageCase("counts that arrive at the same time are all included", async (first, second) => {
    const facts = newMessage();
    const supports = [first, second];
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => (supports[index % 2] ?? first).count(facts, start, newId())),
    );
    assert.equal((await first.find(facts.digest))?.starts, 20);
  }),
  messageCase("messages with other digests have their own tallies", async (first) => {
    const [facts, another] = [newMessage(), newMessage()];
    await first.count(facts, start, newId());
    assert.equal(await first.find(another.digest), null);
    await first.count(another, failed, newId());
    await first.forget(another.digest);
    assert.equal((await first.find(facts.digest))?.starts, 1);
    assert.equal(await first.find(another.digest), null);
  }),
  messageCase("a watched message dies with its counts, and is never forgotten", async (first, second) => {
    const facts = newMessage();
    await first.count(facts, start, newId());
    const letter = newLetter({ reason: "kills-its-process" });
    await second.bury(facts, letter, null);
    await first.forget(facts.digest);
    assert.deepEqual(await first.find(facts.digest), tally({ state: "dead", starts: 1 }));
    const answered = await first.count(facts, failed, newId());
    assert.deepEqual(
      answered,
      tally({ state: "dead", starts: 1, returns: 1, failures: 1, lastErrorCode: "handler-threw" }),
    );
  }),
  messageCase(
    "a letter keeps every byte, and fields that the message does not have are null",
    async (first, _, context) => {
      const facts = newMessage({ tenant: null, key: null });
      const letter = newLetter({ contentType: null });
      const { now: before } = await context.store.read({ tenant: "t", scope: "s", key: "k" });
      await first.bury(facts, letter, null);
      const { now: after } = await context.store.read({ tenant: "t", scope: "s", key: "k" });
      const [dead, ...rest] = await first.list(everything);
      assert.ok(dead !== undefined && rest.length === 0, "one must be dead");
      const { diedAt, ...answered } = dead;
      isAfter(context, diedAt, { before, after }, 0, "diedAt");
      assert.deepEqual(answered, { ...facts, ...tally({ state: "dead" }), ...letter });
    },
  ),
  messageCase(
    "a message that a tally condemns dies only while its tally is unchanged",
    async (first, second) => {
      const facts = newMessage();
      assert.equal(await first.bury(facts, newLetter(), tally({ starts: 1 })), false, "it has no tally");
      assert.equal(await first.find(facts.digest), null);
      const judged = await first.count(facts, start, newId());
      await second.count(facts, { ...failed, failures: 0 }, newId());
      assert.equal(await first.bury(facts, newLetter(), judged), false, "a consumer has come back");
      const again = await second.count(facts, start, newId());
      assert.equal(await first.bury(facts, newLetter(), { ...again, starts: 1 }), false, "a run has begun");
      assert.equal((await first.find(facts.digest))?.state, "watched");
      const letter = newLetter();
      assert.equal(await first.bury(facts, letter, again), true);
      assert.equal(
        await second.bury(facts, newLetter(), again),
        true,
        "it is dead, although another consumer decided it",
      );
      assert.deepEqual(await listed(first), [letter.id]);
    },
  ),
  messageCase("a dead message keeps its first letter", async (first, second) => {
    const facts = newMessage();
    const letter = newLetter();
    await first.bury(facts, letter, null);
    await second.bury(facts, newLetter({ reason: "refused" }), null);
    const dead = await first.list(everything);
    assert.deepEqual(
      dead.map(({ id, reason }) => [id, reason]),
      [[letter.id, letter.reason]],
    );
  }),
  messageCase(
    "dead messages are listed in the order of their deaths, page by page, and by their properties",
    async (first, _, context) => {
      const letters = [newLetter(), newLetter(), newLetter()];
      const facts = [newMessage(), newMessage({ tenant: "u" }), newMessage({ operation: "other" })];
      for (const [index, letter] of letters.entries()) {
        await first.bury(facts[index] ?? newMessage(), letter, null);
        await context.advance(second);
      }
      const all = letters.map(({ id }) => id);
      assert.deepEqual(await listed(first), all);
      assert.deepEqual(await listed(first, { limit: 2 }), all.slice(0, 2));
      const [head] = await first.list({ ...everything, limit: 1 });
      assert.ok(head);
      assert.deepEqual(await listed(first, { after: head }), all.slice(1));
      assert.deepEqual(await listed(first, { tenant: "u" }), [all[1]]);
      assert.deepEqual(await listed(first, { operation: "other" }), [all[2]]);
    },
  ),
  messageCase(
    "a dead message is removed once, with its audit row, and then starts again",
    async (first, second, { store }) => {
      const facts = newMessage({ tenant: "audited", key: "removed" });
      const letter = newLetter();
      await first.bury(facts, letter, null);
      const note = { id: newId(), actor: "op", reason: "looked at it" };
      assert.equal(await first.remove(letter.id, "discard", note), true);
      assert.equal(await second.remove(letter.id, "discard", note), true, "a repetition is true");
      assert.equal(await second.remove(letter.id, "discard", { ...note, id: newId() }), false, "it is gone");
      assert.equal(await first.find(facts.digest), null);
      const entries = await store.settlement.audit({
        tenant: "audited",
        scope: "shipments.create",
        key: "removed",
      });
      assert.deepEqual(
        entries.map(({ id, event, actor, reason, from, to }) => [id, event, actor, reason, from, to]),
        [[note.id, "discard", "op", "looked at it", "dead", "none"]],
      );
      assert.deepEqual(await first.count(facts, start, newId()), tally({ starts: 1 }));
    },
  ),
  messageCase("a watched message is not removed by its id", async (first) => {
    const facts = newMessage();
    const id = newId();
    await first.count(facts, start, id);
    const note = { id: newId(), actor: "op", reason: null };
    assert.equal(await first.remove(id, "redrive", note), false);
    assert.equal((await first.find(facts.digest))?.starts, 1);
  }),
  messageCase(
    "cleaning removes tallies when their time is over, counted from the last count, and no dead message",
    async (first, _, context) => {
      const [over, counted, dead] = [newMessage(), newMessage(), newMessage()];
      for (const facts of [over, counted, dead]) await first.count(facts, start, newId());
      await first.bury(dead, newLetter(), null);
      await first.count(dead, failed, newId());
      await context.advance(hour - minute);
      await first.count(counted, failed, newId());
      assert.equal((await context.store.clean(100)).messages, 0, "no time is over yet");
      await context.advance(2 * minute);
      assert.equal((await context.store.clean(100)).messages, 1);
      const found = await Promise.all([over, counted, dead].map(({ digest }) => first.find(digest)));
      assert.deepEqual(
        found.map((one) => one?.state ?? null),
        [null, "watched", "dead"],
      );
    },
  ),
  messageCase("cleaning removes at most its limit", async (first, _, context) => {
    for (let made = 0; made < 3; made += 1) await first.count(newMessage(), start, newId());
    await context.advance(2 * hour);
    assert.equal((await context.store.clean(2)).messages, 2);
    assert.equal((await context.store.clean(2)).messages, 1);
  }),
];
