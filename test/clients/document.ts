/** What docs/clients.md says, for the tests to compare with what they saw. */
import { readFileSync } from "node:fs";

const document = readFileSync(new URL("../../docs/clients.md", import.meta.url), "utf8");

/** The table below the comment `<!-- observed: name -->`. */
export function documentedTable(name: string): string {
  const [, after = ""] = document.split(`<!-- observed: ${name} -->\n\n`);
  return after.slice(0, after.indexOf("\n\n"));
}

export function documentShows(code: string): boolean {
  return document.includes(`\`\`\`ts\n${code.trimEnd()}\n\`\`\``);
}

export function markdownTable(rows: readonly (readonly string[])[]): string {
  const [head = [], ...body] = rows;
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...body.map(line)].join("\n");
}
