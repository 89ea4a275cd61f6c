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
