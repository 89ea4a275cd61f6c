/** What is asked of the index of a partition, and of its server. Only the index and the look-up table are touched. */
import { script } from "./script.ts";
import { lua } from "./texts.ts";

export const partitionScripts = {
  range: script("range", lua.range, { timed: true }),
  find: script("find", lua.find, { timed: true }),
  inspect: script("inspect", lua.inspect, { timed: true }),
  partitions: script("partitions", lua.partitions),
};
