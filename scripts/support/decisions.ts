/** The table of decisions, from the records themselves. */
import { readFiles, repositoryRoot } from "./repository.ts";
import { renderTable } from "./sections.ts";

/** @throws {TypeError} when a record does not begin as docs/decisions/template.md does */
export function renderDecisions(
  records = readFiles(`${repositoryRoot}/docs/decisions`, "[0-9]*.md"),
): string {
  const rows = [...records].map(([file, text]) => {
    const [, number, title] = /^# (\d{3})\. (.+)$/m.exec(text) ?? [];
    const [, status] = /^Status: (.+?)\. Date: \d{4}-\d{2}-\d{2}\.$/m.exec(text) ?? [];
    if (
      number === undefined ||
      title === undefined ||
      status === undefined ||
      !file.startsWith(`${number}-`)
    ) {
      throw new TypeError(`docs/decisions/${file} does not begin as template.md does`);
    }
    return [`[${number}](${file})`, title, status];
  });
  return renderTable(["Number", "Decision", "Status"], rows);
}
