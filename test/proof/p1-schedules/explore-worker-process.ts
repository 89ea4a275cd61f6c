/** One thread of the tier: explores each unit that it is sent, and answers with what came of it. */
import { parentPort } from "node:worker_threads";
import { runUnit, type Unit } from "./work.ts";

// Most errors in here are planned ones, and nobody reads their stacks.
Error.stackTraceLimit = 0;

parentPort?.on("message", (unit: Unit) => {
  void runUnit(unit).then((result) => parentPort?.postMessage(result));
});
