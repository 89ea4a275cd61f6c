#!/usr/bin/env node
/** The `latchkey` command. */
import { nodeProblem } from "../node-version.ts";

const problem = nodeProblem(process.versions.node);
if (problem !== null) {
  console.error(problem);
  process.exit(1);
}
// Loaded after the version check: an old Node would fail on syntax that it does not know.
const { run } = await import("./run.ts");
process.exitCode = await run({
  args: process.argv.slice(2),
  env: process.env,
  cwd: process.cwd(),
  print: (text) => console.log(text),
  complain: (text) => console.error(text),
});
// A worker's config may have left connections open; do not wait for them any longer.
setTimeout(() => process.exit(), 1_000).unref();
