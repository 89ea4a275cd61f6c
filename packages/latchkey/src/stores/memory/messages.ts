/** Messages of the memory store, each write one step. Values are copied when they are stored and when they are returned. */
import { compareCodeUnits } from "../../fingerprint/code-units.ts";
import type {
  DeadMessage,
  MessageCount,
  MessageFacts,
  MessageFilter,
  MessageLetter,
  MessageSupport,
  MessageTally,
} from "../messages.ts";
import type { AuditEntry } from "../settlement.ts";

export interface MessageRow {
  readonly facts: MessageFacts;
  readonly tally: MessageTally;
  /** Null unless it is dead. */
  readonly letter: (MessageLetter & { readonly diedAt: number }) | null;
  /** Null unless it is watched. */
  readonly expiresAt: number | null;
}

export class MemoryMessages {
  readonly #rows = new Map<string, MessageRow>();

  find(digest: string): MessageRow | null {
    return this.#rows.get(digest) ?? null;
  }

  all(): readonly MessageRow[] {
    return [...this.#rows.values()];
  }

  put(row: MessageRow): MessageRow {
    const { letter } = row;
    const kept = letter && { ...letter, payload: new Uint8Array(letter.payload) };
    this.#rows.set(row.facts.digest, { ...row, facts: { ...row.facts }, letter: kept });
    return row;
  }

  remove(digest: string): void {
    this.#rows.delete(digest);
  }
}

/** @param audit the audit rows, oldest first */
export function memoryMessages(
  messages: MemoryMessages,
  audit: AuditEntry[],
  now: () => number,
): MessageSupport {
  return {
    find: async (digest) => messages.find(digest)?.tally ?? null,
    count: async (facts, count) => counted(messages, now(), facts, count),
    async forget(digest) {
      if (messages.find(digest)?.tally.state === "watched") messages.remove(digest);
    },
    bury: async (facts, letter, judged) => bury(messages, now(), facts, letter, judged),
    list: async (filter) => list(messages, filter),
    async remove(id, event, note) {
      const known = audit.find((entry) => entry.id === note.id);
      if (known !== undefined) return known.recordId === id;
      const dead = messages.all().find(({ letter }) => letter?.id === id);
      if (dead === undefined) return false;
      const { digest, tenant, operation, key } = dead.facts;
      messages.remove(digest);
      audit.push({
        ...note,
        at: now(),
        key: { tenant: tenant ?? "", scope: operation, key: key ?? "" },
        recordId: id,
        effectId: null,
        event,
        from: "dead",
        to: "none",
        proof: "operator",
      });
      return true;
    },
  };
}

const nothing = { state: "watched", starts: 0, returns: 0, failures: 0, lastErrorCode: null } as const;

function counted(
  messages: MemoryMessages,
  now: number,
  facts: MessageFacts,
  { starts, returns, failures, errorCode, keepMs }: MessageCount,
): MessageTally {
  const row = messages.find(facts.digest);
  const before: MessageTally = row?.tally ?? nothing;
  const tally = {
    state: before.state,
    starts: before.starts + starts,
    returns: before.returns + returns,
    failures: before.failures + failures,
    lastErrorCode: errorCode ?? before.lastErrorCode,
  };
  const expiresAt = before.state === "watched" ? now + keepMs : null;
  return messages.put({ facts: row?.facts ?? facts, tally, letter: row?.letter ?? null, expiresAt }).tally;
}

function bury(
  messages: MemoryMessages,
  now: number,
  facts: MessageFacts,
  letter: MessageLetter,
  judged: Parameters<MessageSupport["bury"]>[2],
): boolean {
  const row = messages.find(facts.digest);
  if (row?.tally.state === "dead") return true;
  if (judged !== null && !isJudged(row?.tally, judged)) return false;
  const tally = { ...(row?.tally ?? nothing), state: "dead" } as const;
  messages.put({ facts: row?.facts ?? facts, tally, letter: { ...letter, diedAt: now }, expiresAt: null });
  return true;
}

function isJudged(
  tally: MessageTally | undefined,
  { starts, returns }: Pick<MessageTally, "starts" | "returns">,
): boolean {
  return tally?.starts === starts && tally.returns === returns;
}

function list(
  messages: MemoryMessages,
  { operation, tenant, limit, after }: MessageFilter,
): readonly DeadMessage[] {
  return messages
    .all()
    .flatMap(({ facts, tally, letter }) => (letter === null ? [] : [{ ...facts, ...tally, ...letter }]))
    .filter(
      (dead) =>
        (operation === null || dead.operation === operation) &&
        (tenant === null || dead.tenant === tenant) &&
        (after === null || inOrder(after, dead) < 0),
    )
    .sort(inOrder)
    .slice(0, limit)
    .map((dead) => ({ ...dead, payload: new Uint8Array(dead.payload) }));
}

type Listed = NonNullable<MessageFilter["after"]>;

function inOrder(left: Listed, right: Listed): number {
  return left.diedAt - right.diedAt || compareCodeUnits(left.id, right.id);
}

export function removeOver(messages: MemoryMessages, now: number, limit: number): number {
  const over = messages.all().filter(({ expiresAt }) => expiresAt !== null && now >= expiresAt);
  const removed = over.slice(0, limit);
  for (const { facts } of removed) messages.remove(facts.digest);
  return removed.length;
}
