#!/usr/bin/env node
/** The `latchkey-probe` command. */
const [major = 0] = process.versions.node.split(".").map(Number);
if (major < 22) {
  console.error(`latchkey-probe needs Node 22 or newer; this is ${process.versions.node}.`);
  process.exit(2);
}
// Loaded after the check: an old Node would fail on syntax that it does not know.
const { run } = await import("./run.ts");
try {
  process.exitCode = await run({
    args: process.argv.slice(2),
    cwd: process.cwd(),
    print: (text) => console.log(text),
    complain: (text) => console.error(text),
  });
} catch (error) {
  // An error of the probe must not look like a fault of the server, for which the code is 1.
  console.error(error);
  process.exitCode = 3;
}
