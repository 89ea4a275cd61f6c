/**
 * A reporter for Vitest that writes the files whose tests failed to the file LATCHKEY_FAILED_FILES, one name a line. It writes
 * nothing if something else failed as well, if the run was interrupted, or for more files than chance explains: running those files
 * again would not show that all is well.
 */
import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, TestModule, TestRunEndReason } from "vitest/node";

/** More than a few are a fault of the change. */
const filesMax = 5;
const path = process.env.LATCHKEY_FAILED_FILES;

// biome-ignore lint/style/noDefaultExport: Vitest takes a reporter from there
export default class FailedFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[], reason: TestRunEndReason): void {
    const failed = modules.filter((one) => !["passed", "skipped"].includes(one.state()));
    const files = new Set(failed.map(({ moduleId }) => relative(process.cwd(), moduleId)));
    if (path === undefined || reason === "interrupted" || errors.length > 0 || files.size > filesMax) return;
    writeFileSync(path, [...files, ""].join("\n"));
  }
}
