/**
 * The inbox's part of the store contract: messages that did not succeed at their first delivery, and dead letters. Counts
 * commit outside any business transaction, so that they outlive a process that a message kills.
 */
import type { DeadNote } from "./outbox.ts";

/** Identifies a message. */
export interface MessageFacts {
  /** Over operation, tenant, key and payload, as 64 hexadecimal digits: the same for every delivery and every copy. */
  readonly digest: string;
  /** The queue, stream or topic that it came from. */
  readonly source: string;
  readonly operation: string;
  /** Null if it could not be read from the message. */
  readonly tenant: string | null;
  /** As it is stored; null if the message has none. */
  readonly key: string | null;
}

export interface MessageTally {
  /** `watched`: it may still succeed. `dead`: it waits for a person. */
  readonly state: "watched" | "dead";
  /** How many runs began, of those that were counted. */
  readonly starts: number;
  /** How many of these returned, however they ended. The others have ended with their process, or are running. */
  readonly returns: number;
  readonly failures: number;
  readonly lastErrorCode: string | null;
}

/** Counts to add to a tally. */
export interface MessageCount {
  readonly starts: number;
  readonly returns: number;
  readonly failures: number;
  /** Null: the previous one stays. */
  readonly errorCode: string | null;
  /** How long from now the tally is kept if nothing is counted again. */
  readonly keepMs: number;
}

/** The contents of a dead letter. */
export interface MessageLetter {
  /** UUIDv7 for the row, if the message has none yet. */
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
  /** The last message of the previous page. */
  readonly after: { readonly diedAt: number; readonly id: string } | null;
}

export interface MessageSupport {
  /** @param tenant the message's, for a store that consists of several; undefined if the caller does not know it */
  find(digest: string, tenant?: string | null): Promise<MessageTally | null>;

  /**
   * Adds to the message's tally, and begins one if there is none. A dead message is counted too, and stays dead. A repeated
   * call counts again, so counts may be too high, and limits on them are not exact.
   */
  count(facts: MessageFacts, count: MessageCount, id: string): Promise<MessageTally>;

  /** Removes the tally of a message that has succeeded. The tally of a dead message stays. */
  forget(digest: string, tenant?: string | null): Promise<void>;

  /**
   * → `dead`. A message that is dead already keeps its letter.
   *
   * @param judged the tally that decided it; null if it is dead for another reason, in which case it need not have a tally
   * @returns whether it is dead. False, only with `judged`: its tally has changed since or is gone, and nothing was written
   */
  bury(
    facts: MessageFacts,
    letter: MessageLetter,
    judged: Pick<MessageTally, "starts" | "returns"> | null,
  ): Promise<boolean>;

  /** Dead messages, by `diedAt` and then `id`. */
  list(filter: MessageFilter): Promise<readonly DeadMessage[]>;

  /**
   * Removes a dead letter and writes its audit row: both or neither. False if there is no such letter. A repetition with the
   * same audit id returns true if the first call has been written.
   */
  remove(id: string, event: "redrive" | "discard", note: DeadNote): Promise<boolean>;
}
