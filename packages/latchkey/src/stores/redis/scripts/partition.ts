/** Reads of the index of a partition, and of its server. They use only the index and the look-up table. */
import { script } from "./script.ts";
import { lua } from "./texts.ts";

export const partitionScripts = {
  range: script("range", lua.range, { timed: true }),
  find: script("find", lua.find, { timed: true }),
  inspect: script("inspect", lua.inspect, { timed: true }),
  partitions: script("partitions", lua.partitions),
};
