/** Scripts outside Vitest that start servers, such as the benches. */
import { releaseAll } from "./resources.ts";

/**
 * Runs a script, then ends every server it started. A `TypeError`, such as of a wrong option, is printed with `usage`; every
 * error sets the exit code to 1.
 */
export async function runProgram(run: () => Promise<void>, usage: string): Promise<void> {
  try {
    await run();
  } catch (error) {
    console.error(error instanceof TypeError ? `${error.message}\n\n${usage}` : error);
    process.exitCode = 1;
  } finally {
    await releaseAll();
  }
}
