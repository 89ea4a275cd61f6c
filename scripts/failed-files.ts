/** Prints the files whose tests failed, as Vitest's JSON report names them. Exits with 1 if there are too many to be chance. */
import { readFile } from "node:fs/promises";
import { relative } from "node:path";

/** More than a few are a fault of the change. */
const filesMax = 5;

interface Report {
  readonly testResults: readonly { readonly name: string; readonly status: string }[];
}

const [path = ""] = process.argv.slice(2);
const { testResults } = JSON.parse(await readFile(path, "utf8")) as Report;
const failed = testResults.filter(({ status }) => status !== "passed").map(({ name }) => name);
const files = [...new Set(failed)].map((name) => relative(process.cwd(), name));
if (files.length > filesMax) process.exitCode = 1;
process.stdout.write(`${files.join(" ")}\n`);
