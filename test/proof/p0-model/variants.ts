/** The model with its switches: what must hold in every state, and what must fail. */
export interface Variant {
  readonly name: string;
  readonly switches: readonly string[];
  /** Null: nothing may fail. Else the assertion that must. */
  readonly fails: string | null;
}

const once = "effects<=1";

export const variants: readonly Variant[] = [
  { name: "the provider de-duplicates", switches: ["FENCE", "UNKNOWN", "DEDUP"], fails: null },
  { name: "the provider closes keys", switches: ["FENCE", "UNKNOWN", "CLOSE"], fails: null },
  {
    name: "the provider closes keys, and the call is made again under a new one",
    switches: ["FENCE", "UNKNOWN", "CLOSE", "REOPEN"],
    fails: null,
  },
  { name: "a person decides", switches: ["FENCE", "UNKNOWN"], fails: null },
  { name: "no fence", switches: ["UNKNOWN", "DEDUP"], fails: "attempt==mine" },
  { name: "no unknown: a lease that ends frees the key", switches: ["FENCE"], fails: once },
  {
    name: "a look-up that finds nothing frees the key",
    switches: ["FENCE", "UNKNOWN", "NOT_FOUND_FREES"],
    fails: once,
  },
  {
    name: "what was closed is called again under the same key",
    switches: ["FENCE", "UNKNOWN", "CLOSE", "SAME_KEY"],
    fails: "rounds<=",
  },
  {
    name: "the generation is raised whatever closing says",
    switches: ["FENCE", "UNKNOWN", "CLOSE", "IGNORE_ANSWER"],
    fails: once,
  },
  {
    name: "an owner answers before its completion is confirmed",
    switches: ["FENCE", "UNKNOWN", "DEDUP", "NO_HOLD"],
    fails: "told==",
  },
];
