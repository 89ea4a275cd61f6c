/** Dead letters of messages, for operators and their programs: list them, redrive one, discard one. */
import { createHash } from "node:crypto";
import { StoreError } from "../errors.ts";
import type { Runtime } from "../execution/runtime.ts";
import { checkedProof, type OperatorProof } from "../execution/settlement-terms.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import { uuidVersion7 } from "../ports.ts";
import type { MessageSupport, DeadMessage as Row } from "../stores/messages.ts";
import { retryStoreCall } from "../time/retry-until.ts";
import type { MessageDeath } from "./broker.ts";
import { letterContext } from "./tallies.ts";

export interface DeadMessage {
  /** The id of its dead letter. */
  readonly id: string;
  readonly operation: string;
  /** Null if the tenant could not be read from the message. */
  readonly tenant: string | null;
  /** As it is stored, which is a digest under a `keySecret`. Null if the message has none. */
  readonly key: string | null;
  /** The id by which an inbox recognises the message. Null if it had none, or if only a digest of it is stored. */
  readonly messageId: string | null;
  /** The queue, stream or topic that it came from. */
  readonly source: string;
  readonly reason: MessageDeath;
  readonly contentType: string | null;
  /** How many runs began, of those that were counted. */
  readonly starts: number;
  /** How many of these returned. The others ended with their process. */
  readonly returns: number;
  readonly failures: number;
  readonly lastErrorCode: string | null;
  /** Milliseconds since the Unix epoch, by the store's clock. */
  readonly diedAt: number;
  /** The size of the payload as it is stored. */
  readonly storedBytes: number;
  /** Decodes the payload. Rejects as the codec does. */
  body(): Promise<Uint8Array>;
}

export interface DeadMessageFilter {
  /** Default: of every operation. */
  readonly operation?: string;
  /** Default: of every tenant. */
  readonly tenant?: string;
  /** Default 50. */
  readonly limit?: number;
  /** The last message of the previous page. */
  readonly after?: { readonly diedAt: number; readonly id: string };
}

const filterNames = {
  operation: true,
  tenant: true,
  limit: true,
  after: true,
} as const satisfies OptionNames<DeadMessageFilter>;

/** A message to publish again. Headers are not stored. */
export interface RedrivenMessage extends Omit<DeadMessage, "body" | "storedBytes"> {
  readonly body: Uint8Array;
}

/** Publishes a message again, under its `messageId`. It resolves once the broker has confirmed it. */
export type Republish = (message: RedrivenMessage) => Promise<void> | void;

export interface DeadMessages {
  /** Oldest first. */
  list(filter?: DeadMessageFilter): Promise<readonly DeadMessage[]>;
  /** Null if there is no such message, or it is not dead. */
  find(id: string): Promise<DeadMessage | null>;

  /**
   * Publishes a dead message again and removes its letter. It is never lost, because a letter exists until `publish` has
   * resolved. When `publish` rejects, or the process dies, the letter stays under another id, which is listed; the same call
   * under either id goes on. If a message was published twice, its inbox treats both as one.
   *
   * @returns the audit row's id; null if the message is not dead or does not exist, and nothing was done
   * @throws {StoreError}
   * @throws whatever `publish`, or the codec, throws.
   */
  redrive(id: string, by: OperatorProof, publish: Republish): Promise<string | null>;

  /**
   * Removes a dead letter whose work has happened, or must never happen.
   *
   * @returns as above
   * @throws {StoreError}
   */
  discard(id: string, by: OperatorProof): Promise<string | null>;
}

/** @throws {TypeError} when the store keeps no messages. */
export function deadMessages<Tx>({ runtime }: Pick<Latchkey<Tx>, "runtime">): DeadMessages {
  const { messages: support, name } = runtime.store;
  if (support === null) throw new TypeError(`Store ${name} keeps no messages`);
  return {
    async list(filter = {}) {
      checkOptions("deadMessages: list", filter, filterNames);
      const { operation = null, tenant = null, limit = 50, after = null } = filter;
      const rows = await support.list({ operation, tenant, limit, after });
      return rows.map((row) => messageOf(runtime, row));
    },
    async find(id) {
      const row = await search(support, id);
      return row && messageOf(runtime, row);
    },
    redrive: (id, by, publish) => redrive(runtime, support, id, checkedProof(by), publish),
    async discard(id, by) {
      const proof = checkedProof(by);
      if ((await search(support, id)) === null) return null;
      const removed = await remove(runtime, support, id, "discard", proof);
      // Removes also a second letter that an interrupted redrive has left behind.
      return (await remove(runtime, support, heldId(id), "discard", proof)) ?? removed;
    },
  };
}

/**
 * As long as a letter exists, an inbox acknowledges deliveries of its message as dead already, so the letter must be removed
 * before the message is published. Until then a second letter keeps the message, under a digest that no message has.
 */
async function redrive<Tx>(
  runtime: Runtime<Tx>,
  support: MessageSupport,
  id: string,
  proof: OperatorProof,
  publish: Republish,
): Promise<string | null> {
  const row = await search(support, id);
  if (row === null) return null;
  const message = messageOf(runtime, row);
  const body = await message.body();
  const held = isHeld(row) ? row.id : await hold(runtime, support, row, body);
  // If an earlier redrive was interrupted, the first letter may be removed already, or exist beside the second.
  const first = held === id ? await firstOf(support, held) : id;
  const audit = first === null ? null : await remove(runtime, support, first, "redrive", proof);
  if (!isHeld(row) && audit === null) {
    await withdraw(runtime, support, row, held, proof);
    return null;
  }
  const { storedBytes: _storedBytes, ...facts } = message;
  await publish({ ...facts, body });
  return (await remove(runtime, support, held, "redrive", proof)) ?? audit;
}

/**
 * Another operator has decided about the first letter since this call found it. The second letter belongs to that operator's
 * redrive while it publishes; once that is over, or if it was a discard, this call removes the second letter.
 */
async function withdraw<Tx>(
  runtime: Runtime<Tx>,
  support: MessageSupport,
  { id, tenant, operation, key }: Row,
  held: string,
  { operator }: OperatorProof,
): Promise<void> {
  const place = { tenant: tenant ?? "", scope: operation, key: key ?? "" };
  const entries = await retryStoreCall(runtime.ports, () => runtime.store.settlement.audit(place));
  const isOver = entries.some(
    ({ recordId, event }) => recordId === held || (recordId === id && event === "discard"),
  );
  if (!isOver) return;
  const reason = "another decision was made at the same moment";
  await remove(runtime, support, held, "discard", { operator, reason });
}

async function hold<Tx>(
  runtime: Runtime<Tx>,
  support: MessageSupport,
  row: Row,
  body: Uint8Array,
): Promise<string> {
  const { id, reason, contentType, starts, returns, failures, lastErrorCode, ...facts } = row;
  const held = { ...facts, digest: heldDigest(id) };
  const letter = { id: heldId(id), reason, contentType };
  let isWanted = true;
  // A try that was abandoned must not go on: by then another redrive may have removed the letter.
  const onlyWanted = () => {
    if (!isWanted) throw new StoreError("not_sent");
  };
  try {
    await retryStoreCall(runtime.ports, async () => {
      if ((await support.find(held.digest)) === null) {
        onlyWanted();
        await support.count(held, { starts, returns, failures, errorCode: lastErrorCode, keepMs }, letter.id);
      }
      const payload = await runtime.codec.encode(body, letterContext(held));
      onlyWanted();
      await support.bury(held, { ...letter, payload }, null);
    });
  } finally {
    isWanted = false;
  }
  return letter.id;
}

/** How long counts are kept if no letter follows them. */
const keepMs = 24 * 60 * 60 * 1_000;
const heldMark = "0".repeat(16);

function heldDigest(id: string): string {
  return heldMark + hashOf(id).toString("hex").slice(heldMark.length);
}

/** The same for the same letter, so that an interrupted redrive is found again. */
function heldId(id: string): string {
  return uuidVersion7(timeOf(id), hashOf(id));
}

function isHeld({ digest }: Row): boolean {
  return digest.startsWith(heldMark);
}

function hashOf(id: string): Buffer {
  return createHash("sha256").update(`latchkey held letter ${id}`).digest();
}

function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

function messageOf<Tx>({ codec, storedKey }: Runtime<Tx>, row: Row): DeadMessage {
  const { payload, digest: _digest, state: _state, reason, ...facts } = row;
  const { operation, tenant, key } = facts;
  const sent = { tenant: tenant ?? "", scope: operation, key: key ?? "" };
  return {
    ...facts,
    reason: reason as MessageDeath,
    messageId: storedKey(sent).key === sent.key ? key : null,
    storedBytes: payload.byteLength,
    body: async () => codec.decode(payload, letterContext(row)),
  };
}

const pageSize = 100;
/** The clocks of a store and its clients rarely differ by more. */
const skewMs = 60 * 60 * 1_000;
const firstId = "00000000-0000-0000-0000-000000000000";

/** Searches first around the time in the id, then everywhere, because the store has no look-up by id. */
async function search(support: MessageSupport, id: string): Promise<Row | null> {
  if (!/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u.test(id)) return null;
  const ids = [id, heldId(id)];
  const wanted = (row: Row) => ids.includes(row.id);
  return (await scanNear(support, wanted, id)) ?? scan(support, wanted, null, Infinity);
}

/** The id of the letter that this one replaces. */
async function firstOf(support: MessageSupport, held: string): Promise<string | null> {
  const first = await scanNear(support, ({ id }) => heldId(id) === held, held);
  return first?.id ?? null;
}

function scanNear(support: MessageSupport, wanted: (row: Row) => boolean, id: string): Promise<Row | null> {
  const made = timeOf(id);
  return scan(support, wanted, { diedAt: Math.max(0, made - skewMs), id: firstId }, made + skewMs);
}

async function scan(
  support: MessageSupport,
  wanted: (row: Row) => boolean,
  from: { readonly diedAt: number; readonly id: string } | null,
  until: number,
): Promise<Row | null> {
  for (let after = from; ; ) {
    const rows = await support.list({ operation: null, tenant: null, limit: pageSize, after });
    const found = rows.find(wanted);
    if (found !== undefined) return found;
    const last = rows.at(-1);
    if (last === undefined || rows.length < pageSize || last.diedAt > until) return null;
    after = { diedAt: last.diedAt, id: last.id };
  }
}

async function remove<Tx>(
  runtime: Runtime<Tx>,
  support: MessageSupport,
  id: string,
  event: "redrive" | "discard",
  { operator, reason }: OperatorProof,
): Promise<string | null> {
  const { ports } = runtime;
  const note = { id: ports.random.uuid(ports.clock.wallMs()), actor: operator, reason };
  return (await retryStoreCall(ports, () => support.remove(id, event, note))) ? note.id : null;
}
