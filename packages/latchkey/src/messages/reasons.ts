/** Why a message is dead, or was given back. */

export type MessageDeath =
  /** Its sender has given it no id. */
  | "missing-id"
  /** Its id is longer than 255 characters, cannot be stored, or is the text of a missing value (`undefined`, `null`). */
  | "invalid-id"
  /** The tenant function threw, returned nothing, or returned a value that looks like a credential. */
  | "tenant-missing"
  /** `decode` could not read it. */
  | "undecodable"
  /** A message with the same id and other content has run. */
  | "key-misuse"
  /** Its handler refused it. */
  | "refused"
  /** Its handler failed too often. */
  | "failed"
  /** The processes that ran it have died too often. */
  | "kills-its-process"
  /** Latchkey could not find out whether its work has happened. Its record waits for a person, too. */
  | "outcome-unknown"
  /** It was deferred, and no worker started it in time. */
  | "timeout";

export type GiveBackReason =
  | "in-progress"
  | "store-unavailable"
  | "commit-in-doubt"
  | "too-many-keys"
  | "handler-failed"
  | "outcome-unknown"
  | "stopping";
