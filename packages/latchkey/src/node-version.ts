/** Which versions of Node this runs on. Written so that an old one can still load it, and say so. */

const oldest = 22;

/** What is wrong with a version of Node, in one sentence. Null: nothing; or it is no Node that runs here. */
export function nodeProblem(version: string | undefined): string | null {
  const major = Number.parseInt(version ?? "", 10);
  if (Number.isNaN(major) || major >= oldest) return null;
  return `Latchkey needs Node ${oldest} or newer, and this process runs on Node ${version}.`;
}

/** @throws {Error} on a Node that is too old: each request would fail later, with a message that does not say why. */
export function requireNode(version: string | undefined): void {
  const problem = nodeProblem(version);
  if (problem !== null) throw new Error(problem);
}
