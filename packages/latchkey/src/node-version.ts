/** Which versions of Node are supported. Written so that an old version can still load this file and report the problem. */

const oldest = 22;

/** What is wrong with a version of Node, in one sentence; null if nothing is, or if the runtime is not Node. */
export function nodeProblem(version: string | undefined): string | null {
  const major = Number.parseInt(version ?? "", 10);
  if (Number.isNaN(major) || major >= oldest) return null;
  return `Latchkey needs Node ${oldest} or newer, and this process runs on Node ${version}.`;
}

/** @throws {Error} on a Node that is too old: each request would fail later, with a message that does not name the cause. */
export function requireNode(version: string | undefined): void {
  const problem = nodeProblem(version);
  if (problem !== null) throw new Error(problem);
}
