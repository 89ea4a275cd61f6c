/** The generated part of docs/threat-model.md. */
import type { Threat } from "./threats.ts";

export function renderThreats(threats: readonly Threat[]): string {
  return threats.map(section).join("\n\n");
}

function section({ threat, control, shownBy, rest }: Threat, index: number): string {
  const tests = shownBy.map(({ file, title }) => `- \`${file}\`${title === "" ? "" : `: ${title}`}`);
  const parts = [`### ${index + 1}. ${threat}`, control, tests.join("\n")];
  if (rest !== undefined) parts.push(`What is left: ${rest}`);
  return parts.join("\n\n");
}
