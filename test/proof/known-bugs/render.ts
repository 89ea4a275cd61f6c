/** The generated part of docs/known-bugs.md. */
import type { KnownBug } from "./known-bugs.ts";

export function renderKnownBugs(bugs: readonly KnownBug[], before = 0): string {
  return bugs.map((bug, index) => section(bug, before + index)).join("\n\n");
}

function section({ bug, where, shownBy, why }: KnownBug, index: number): string {
  const tests = shownBy.map(({ file, title }) => `- \`${file}\`: ${title}`).join("\n");
  return [`### ${index + 1}. ${bug}`, `Seen in: ${where}.`, why, tests].filter(Boolean).join("\n\n");
}
