/** What published practices require of a server, where they differ. */

export interface Profile {
  readonly name: ProfileName;
  /** Whether a request must have a key; `any`: the practice leaves it to the service. */
  readonly key: "required" | "optional" | "any";
  /** Statuses for a key that is reused with another body. */
  readonly misuse: readonly number[];
  /** Statuses for a duplicate while the first request runs. */
  readonly inProgress: readonly number[];
  /** Statuses for a missing, an empty and a malformed key. */
  readonly badKey: readonly number[];
  /** What the key's header may contain; `either`: the server may choose, and must support what it accepts. */
  readonly syntax: "structured" | "bare" | "either";
  /** Whether a replay has `Idempotent-Replayed: true`. */
  readonly marksReplays: boolean;
  /** What a retry after a 5xx gets: the same answer (`store`), another run (`release`), or either. */
  readonly serverErrors: "store" | "release" | "any";
  /** Whether a refused duplicate has `Retry-After`. */
  readonly retryAfter: boolean;
  /** Whether every answer repeats the key in the key's header. */
  readonly echoesKey: boolean;
}

export const profileNames = ["ietf", "stripe", "acp", "ucp"] as const;
export type ProfileName = (typeof profileNames)[number];

export const profiles: Readonly<Record<ProfileName, Profile>> = {
  ietf: {
    name: "ietf",
    key: "required",
    misuse: [422],
    inProgress: [409],
    badKey: [400],
    syntax: "structured",
    marksReplays: false,
    serverErrors: "any",
    retryAfter: false,
    echoesKey: false,
  },
  stripe: {
    name: "stripe",
    key: "optional",
    misuse: [400],
    inProgress: [409],
    badKey: [400],
    syntax: "bare",
    marksReplays: true,
    serverErrors: "store",
    retryAfter: false,
    echoesKey: false,
  },
  acp: {
    name: "acp",
    key: "required",
    misuse: [422],
    inProgress: [409],
    badKey: [400],
    syntax: "bare",
    marksReplays: true,
    serverErrors: "release",
    retryAfter: true,
    echoesKey: true,
  },
  ucp: {
    name: "ucp",
    key: "required",
    misuse: [409],
    inProgress: [409],
    badKey: [400],
    syntax: "either",
    marksReplays: false,
    serverErrors: "any",
    retryAfter: false,
    echoesKey: false,
  },
};
