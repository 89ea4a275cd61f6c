import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** The file that collects what could not run; test processes inherit it from the process that started them. */
const variable = "LATCHKEY_TEST_NOT_RUN";

/**
 * Reports something that cannot be tested on this machine. Nothing is skipped silently: the run ends with one summary, and in
 * CI (`CI=true`) it fails.
 */
export function notRun(what: string, reason: string): void {
  const message = `${what} (${reason})`;
  if (process.env.CI === "true") throw new Error(`not run: ${message}; in CI everything has to run`);
  const file = process.env[variable];
  if (file === undefined) process.stderr.write(`not run: ${message}\n`);
  else appendFileSync(file, `${message}\n`);
}

/** Called before test processes start. Returns a function that prints the summary, if there is anything to say. */
export function collectNotRun(): () => void {
  if (process.env[variable] !== undefined) return () => {};
  const file = join(mkdtempSync(join(tmpdir(), "latchkey-not-run-")), "lines");
  process.env[variable] = file;
  return () => {
    delete process.env[variable];
    const text = existsSync(file) ? readFileSync(file, "utf8") : "";
    rmSync(dirname(file), { recursive: true, force: true });
    const lines = [...new Set(text.split("\n").filter(Boolean))].sort();
    if (lines.length === 0) return;
    process.stderr.write(`\nNot run on this machine:\n${lines.map((line) => `  - ${line}\n`).join("")}`);
  };
}
