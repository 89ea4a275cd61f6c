/** Why a message is dead, or was given back. */

export type MessageDeath =
  /** Its sender has named it by nothing. */
  | "missing-id"
  /** Its name is longer than 255 characters, cannot be stored, or stands for none (`undefined`, `null`). */
  | "invalid-id"
  /** The tenant function threw, gave nothing, or gave what looks like a credential. */
  | "tenant-missing"
  /** It is not what `decode` reads. */
  | "undecodable"
  /** A message of the same name has run that said something else. */
  | "key-misuse"
  /** Its handler said so. */
  | "refused"
  /** Its handler failed too often. */
  | "failed"
  /** The processes that ran it have died too often. */
  | "kills-its-process"
  /** Whether it has happened could not be found out. Its record waits for a person, too. */
  | "outcome-unknown"
  /** Deferred: no worker took it up in time. */
  | "timeout";

export type GiveBackReason =
  | "in-progress"
  | "store-unavailable"
  | "commit-in-doubt"
  | "too-many-keys"
  | "handler-failed"
  | "outcome-unknown"
  | "stopping";
