/** What must have been met, or the interleavings were not what they should be. */

/** By any sitting, the smallest too. */
export const reachedAlways: readonly string[] = [
  "step blocked",
  "SQLSTATE 40001",
  "SQLSTATE 22012",
  "SQLSTATE 23505",
  "SQLSTATE 57P01",
  "taken over",
  "owner has lost",
  "transaction lost to another",
  "resolved: committed",
  "resolved: rolled_back",
  "effect claimed",
  "late bytes never arrived",
  "COMMIT of several messages",
  "shared transaction undone",
  "handler started, and not admitted",
];

/** By one of some thousands. */
export const reachedOften: readonly string[] = [
  "SQLSTATE 40P01",
  "COMMIT in doubt, resolved: committed",
  "COMMIT in doubt, resolved: rolled_back",
  "given up",
  "phase lost",
  "refenced, the phase is there",
  "refenced, the phase is not there",
  "refence lost",
  "claim rescued",
  "claim lost before its send",
  "claim lost before its end",
  "pending claimed",
  "unknown claimed",
  "late owner has settled",
  "operator has settled",
  "ran again after the end of a lease",
  "life over",
];
