/** What a process can ask of the world outside: the store's calls, and the other side's. */

export interface Ask {
  readonly actor: string;
  readonly port: string;
  readonly args: readonly unknown[];
}

/** What can be lost or late on the way, and how its caller then fails. */
export type Side = "store" | "other side";

const otherSide: ReadonlySet<string> = new Set(["send", "lookUp", "close", "charge", "lookUpOperation"]);

export function sideOf(port: string): Side {
  return otherSide.has(port) ? "other side" : "store";
}

const reads: ReadonlySet<string> = new Set([
  "read",
  "readById",
  "endedLeases",
  "journal.read",
  "settlement.resumable",
  "resolve",
  "open",
  "openEarly",
  "openPhase",
  "openDelivery",
  "lookUp",
]);

/** Whether it may change something beside its caller. */
export function changes(port: string): boolean {
  return !reads.has(port);
}

/** Giving a connection back tells nobody anything, and cannot fail. */
export function isRollback(port: string): boolean {
  return port === "rollback";
}

export function isCommit(port: string): boolean {
  return port.startsWith("commit");
}
