/**
 * The inbox's part of the store contract: messages that did not go through at their first delivery, and dead letters. What
 * is counted here commits apart from any business transaction, so that it outlives the process that a message kills.
 */
import type { DeadNote } from "./outbox.ts";

/** Which message. */
export interface MessageFacts {
  /** Over operation, tenant, key and payload, as 64 hexadecimal digits: the same for every delivery and every copy. */
  readonly digest: string;
  /** The queue, stream or topic that it came from. */
  readonly source: string;
  readonly operation: string;
  /** Null where the message does not say. */
  readonly tenant: string | null;
  /** As it is kept; null where the message does not say. */
  readonly key: string | null;
}

export interface MessageTally {
  /** `watched`: it may still go through. `dead`: it waits for a person. */
  readonly state: "watched" | "dead";
  /** Runs begun, of those that were counted. */
  readonly starts: number;
  /** … and come back from, however they ended. The rest has ended with its process, or is under way. */
  readonly returns: number;
  readonly failures: number;
  readonly lastErrorCode: string | null;
}

/** What is added to a tally. */
export interface MessageCount {
  readonly starts: number;
  readonly returns: number;
  readonly failures: number;
  /** Null: the last one stays. */
  readonly errorCode: string | null;
  /** From now, how long the tally is kept without another count. */
  readonly keepMs: number;
}

/** What a dead letter keeps. */
export interface MessageLetter {
  /** UUIDv7 of the row, where there is none yet. */
  readonly id: string;
  readonly reason: string;
  readonly contentType: string | null;
  /** As the codec stored it. */
  readonly payload: Uint8Array;
}

export interface DeadMessage extends MessageFacts, MessageTally, MessageLetter {
  readonly diedAt: number;
}

export interface MessageFilter {
  readonly operation: string | null;
  readonly tenant: string | null;
  readonly limit: number;
  /** The last one of the page before. */
  readonly after: { readonly diedAt: number; readonly id: string } | null;
}

export interface MessageSupport {
  /** @param tenant the message's, for a store that is several; undefined: it is not known here */
  find(digest: string, tenant?: string | null): Promise<MessageTally | null>;

  /**
   * Adds to the message's tally, which it begins where there is none. A dead one is counted and stays dead. A call that is
   * repeated counts again: limits on counts are bounds, not numbers.
   */
  count(facts: MessageFacts, count: MessageCount, id: string): Promise<MessageTally>;

  /** It has gone through: its tally goes. A dead one stays. */
  forget(digest: string, tenant?: string | null): Promise<void>;

  /**
   * → `dead`. One that is dead already keeps the letter it has.
   *
   * @param judged the tally that condemns it, or null where something else does. Then it need not be watched
   * @returns whether it is dead; false, where it was judged alone: its tally has changed since, or is gone, and nothing was
   *   written
   */
  bury(
    facts: MessageFacts,
    letter: MessageLetter,
    judged: Pick<MessageTally, "starts" | "returns"> | null,
  ): Promise<boolean>;

  /** Dead ones, by `diedAt` and then `id`. */
  list(filter: MessageFilter): Promise<readonly DeadMessage[]>;

  /**
   * Removes a dead letter, with its audit row: both or neither. False: it is not there. A repetition with the same audit id
   * answers true when the first has been written.
   */
  remove(id: string, event: "redrive" | "discard", note: DeadNote): Promise<boolean>;
}
