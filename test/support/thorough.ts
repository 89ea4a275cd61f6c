/**
 * Whether tests run in every combination (LATCHKEY_PROVE=1). The test command has eight minutes on two processors: what
 * several combinations show in the same way, it shows in some of them.
 */
export const isThorough = process.env.LATCHKEY_PROVE === "1";
