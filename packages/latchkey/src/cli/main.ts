#!/usr/bin/env node
/** The `latchkey` command. */
import { nodeProblem } from "../node-version.ts";

const problem = nodeProblem(process.versions.node);
if (problem !== null) {
  console.error(problem);
  process.exit(1);
}
// Loaded after that look: an old Node would stop at what it does not know.
const { run } = await import("./run.ts");
process.exitCode = await run({
  args: process.argv.slice(2),
  env: process.env,
  cwd: process.cwd(),
  print: (text) => console.log(text),
  complain: (text) => console.error(text),
});
// A worker's config may have left connections open. They are not waited for any longer.
setTimeout(() => process.exit(), 1_000).unref();
