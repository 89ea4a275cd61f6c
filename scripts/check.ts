/** Runs every check to its end, whatever the results of the others, and lists which failed. `npm run check` */
import { spawnSync } from "node:child_process";

const checks = [
  "lint",
  "typecheck",
  "check:boundaries",
  "check:exports",
  "check:generated",
  "check:proof",
  "check:lists",
  "check:docs",
  "check:site",
  "check:unused",
  "check:package",
];

const failed = checks.filter((name) => {
  console.log(`\n> ${name}`);
  return spawnSync("npm", ["run", "--silent", name], { stdio: "inherit" }).status !== 0;
});

console.log(failed.length > 0 ? `\nfailed: ${failed.join(", ")}` : `\nall ${checks.length} checks passed`);
process.exitCode = failed.length > 0 ? 1 : 0;
