/** Which versions of Node are supported. Written so that an old version can still load this file and report the problem. */

/** The first with `process.getBuiltinModule`. */
const oldest = { major: 22, minor: 3 };

/** What is wrong with a version of Node, in one sentence; null if nothing is, or if the runtime is not Node. */
export function nodeProblem(version: string | undefined): string | null {
  const [major = Number.NaN, minor = 0] = (version ?? "").split(".").map((part) => Number.parseInt(part, 10));
  if (Number.isNaN(major) || major > oldest.major) return null;
  if (major === oldest.major && minor >= oldest.minor) return null;
  return `Latchkey needs Node ${oldest.major}.${oldest.minor} or newer, and this process runs on Node ${version}.`;
}

/** @throws {Error} on a Node that is too old: each request would fail later, with a message that does not name the cause. */
export function requireNode(version: string | undefined): void {
  const problem = nodeProblem(version);
  if (problem !== null) throw new Error(problem);
}
