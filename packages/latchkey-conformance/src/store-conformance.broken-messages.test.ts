/** The cases about messages can fail: each of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { casesOf, failuresOf, type Mistake, type Parts } from "../../../test/support/broken-store.ts";
import type { MessageRow } from "../../latchkey/src/stores/memory/messages.ts";
import type { MessageSupport } from "../../latchkey/src/stores/messages.ts";

const messages = (make: (parts: Parts) => Partial<MessageSupport>): Mistake => ({ messages: make });

function alterAll({ kept }: Parts, change: (row: MessageRow) => MessageRow): void {
  for (const row of kept.all()) kept.put(change(row));
}

/** A mistake, and the cases that catch it. */
const mistakes: Readonly<Record<string, Mistake>> = {
  "concurrent counts are lost": messages((parts) => ({
    async count(facts, count, id) {
      const before = parts.kept.find(facts.digest);
      await Promise.resolve();
      if (before === null) parts.kept.remove(facts.digest);
      else parts.kept.put(before);
      return parts.messages.count(facts, count, id);
    },
  })),
  "a count forgets the last error": messages((parts) => ({
    async count(facts, count, id) {
      const counted = { ...(await parts.messages.count(facts, count, id)), lastErrorCode: count.errorCode };
      const row = parts.kept.find(facts.digest);
      if (row !== null) parts.kept.put({ ...row, tally: counted });
      return counted;
    },
  })),
  "all messages share a tally": messages(({ messages: sound }) => ({
    find: () => sound.find("shared"),
    count: (facts, count, id) => sound.count({ ...facts, digest: "shared" }, count, id),
    forget: () => sound.forget("shared"),
  })),
  "a dead message is forgotten": messages(({ kept }) => ({
    async forget(digest) {
      kept.remove(digest);
    },
  })),
  "dying resets the counts": messages((parts) => ({
    async bury(facts, letter) {
      if (parts.kept.find(facts.digest)?.tally.state !== "dead") parts.kept.remove(facts.digest);
      return parts.messages.bury(facts, letter, null);
    },
  })),
  "a count revives a dead message": messages((parts) => ({
    async count(facts, count, id) {
      const counted = await parts.messages.count(facts, count, id);
      const tally = { ...counted, state: "watched" } as const;
      const row = parts.kept.find(facts.digest);
      if (row !== null)
        parts.kept.put({ ...row, tally, letter: null, expiresAt: parts.now() + count.keepMs });
      return tally;
    },
  })),
  "a second death overwrites the letter": messages((parts) => ({
    async bury(facts, letter, judged) {
      const row = parts.kept.find(facts.digest);
      if (row !== null) parts.kept.put({ ...row, tally: { ...row.tally, state: "watched" } });
      return parts.messages.bury(facts, letter, judged);
    },
  })),
  "bytes pass through text": messages(({ messages: sound }) => ({
    bury: (facts, letter, judged) =>
      sound.bury(
        facts,
        { ...letter, payload: Buffer.from(Buffer.from(letter.payload).toString("utf8")) },
        judged,
      ),
  })),
  "null is stored as empty text": messages(({ messages: sound }) => ({
    bury: (facts, letter, judged) => sound.bury({ ...facts, tenant: facts.tenant ?? "" }, letter, judged),
  })),
  "a message is condemned by an outdated tally": messages(({ messages: sound }) => ({
    bury: (facts, letter) => sound.bury(facts, letter, null),
  })),
  "a message is condemned without checking whether it came back": messages(({ kept, messages: sound }) => ({
    bury: (facts, letter, judged) =>
      sound.bury(
        facts,
        letter,
        judged && { ...judged, returns: kept.find(facts.digest)?.tally.returns ?? 0 },
      ),
  })),
  "the list has no order": messages(({ messages: sound }) => ({
    list: async (filter) => (await sound.list(filter)).toReversed(),
  })),
  "the list ignores pages": messages(({ messages: sound }) => ({
    list: (filter) => sound.list({ ...filter, after: null }),
  })),
  "the list includes every tenant": messages(({ messages: sound }) => ({
    list: (filter) => sound.list({ ...filter, tenant: null }),
  })),
  "the list includes every operation": messages(({ messages: sound }) => ({
    list: (filter) => sound.list({ ...filter, operation: null }),
  })),
  "a removal is not audited": messages((parts) => ({
    async remove(id, event, note) {
      const done = await parts.messages.remove(id, event, note);
      parts.audit.splice(0, parts.audit.length, ...parts.audit.filter((entry) => entry.id !== note.id));
      return done;
    },
  })),
  "every removal returns true": messages(({ messages: sound }) => ({
    async remove(id, event, note) {
      await sound.remove(id, event, note);
      return true;
    },
  })),
  "a removal leaves the row": messages((parts) => ({
    async remove(id, event, note) {
      const row = parts.kept.all().find(({ letter }) => letter?.id === id);
      const done = await parts.messages.remove(id, event, note);
      if (row !== undefined) parts.kept.put(row);
      return done;
    },
  })),
  "a tally's time is counted from its first count": messages((parts) => ({
    async count(facts, count, id) {
      const before = parts.kept.find(facts.digest)?.expiresAt ?? null;
      const counted = await parts.messages.count(facts, count, id);
      const row = parts.kept.find(facts.digest);
      if (row !== null && before !== null) parts.kept.put({ ...row, expiresAt: before });
      return counted;
    },
  })),
  "cleaning removes dead messages": {
    store: (parts) => ({
      async clean(limit) {
        alterAll(parts, (row) => ({ ...row, expiresAt: row.expiresAt ?? parts.now() }));
        return parts.inner.clean(limit);
      },
    }),
  },
  "cleaning never removes a tally": {
    store: (parts) => ({
      async clean(limit) {
        const rows = parts.kept.all();
        const report = { ...(await parts.inner.clean(limit)), messages: 0 };
        for (const row of rows) parts.kept.put(row);
        return report;
      },
    }),
  },
  "cleaning ignores its limit": {
    store: (parts) => ({ clean: () => parts.inner.clean(1_000) }),
  },
};

describe("the cases about messages", () => {
  const caught = new Set<string>();

  test.each(Object.entries(mistakes))("detect that %s", async (_name, mistake) => {
    const cases = casesOf(mistake).filter(([name]) => name.startsWith("messages:"));
    const failures = await failuresOf(cases);
    expect(failures.size).toBeGreaterThan(0);
    for (const error of failures.values()) expect(error).toBeInstanceOf(AssertionError);
    for (const name of failures.keys()) caught.add(name);
  });

  test("each catch some mistake", () => {
    const names = casesOf({}).map(([name]) => name);
    const idle = names.filter((name) => name.startsWith("messages:") && !caught.has(name));
    expect(idle).toEqual([]);
  });
});
