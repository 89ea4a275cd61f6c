/**
 * Reports something that cannot be tested on this machine. Nothing is left out silently: in CI (`CI=true`) it is a
 * failure.
 */
export function notRun(what: string, reason: string): void {
  const message = `not run: ${what} (${reason})`;
  if (process.env.CI === "true") throw new Error(`${message}; in CI everything has to run`);
  process.stderr.write(`${message}\n`);
}
