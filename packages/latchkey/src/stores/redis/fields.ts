/** The fields of a record's hash that every script reads, in the order in which a reply has them. */
export const recordFields = [
  "id",
  /** State. */
  "st",
  /** Attempt number and token: the fence. */
  "at",
  "tk",
  "op",
  /** Version and digest of the fingerprint. */
  "fv",
  "fd",
  /** Principal; absent: none. */
  "pr",
  /** createdAt. */
  "ca",
  /** leaseEndsAt. */
  "le",
  /** expiresAt. */
  "ex",
  /** What the lease's end means, and how many attempts there may be. */
  "lend",
  "am",
  /** finishedAt. */
  "fi",
  /** forgetAt. */
  "fg",
  /** lastErrorCode; absent: none. */
  "er",
  /** reconcileAfter; absent: none. */
  "ra",
  /** When a worker may resume it; absent: the next request resumes it. */
  "rs",
  /** Recovery point; absent: none. */
  "rp",
  /** How often it was claimed for reconciliation, and by which claim last. */
  "tr",
  "cl",
  /** The token of the one call that began or ended the attempt. If the client itself sends that call again, it gets the same answer. */
  "x",
  /** Present if its tenant finds it by its id. */
  "ad",
  /** Present if early settlements are kept. */
  "ks",
  /** The span in which its life began, as a W3C traceparent; absent: none. */
  "tp",
  /** Tenant, scope and key. */
  "t",
  "s",
  "k",
] as const;

export type RecordField = (typeof recordFields)[number];
