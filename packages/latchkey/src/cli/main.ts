#!/usr/bin/env node
/** The `latchkey` command. */
import { run } from "./run.ts";

process.exitCode = await run({
  args: process.argv.slice(2),
  env: process.env,
  cwd: process.cwd(),
  print: (text) => console.log(text),
  complain: (text) => console.error(text),
});
// A worker's config may have left connections open. They are not waited for any longer.
setTimeout(() => process.exit(), 1_000).unref();
