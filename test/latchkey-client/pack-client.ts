/** The client as it is packed, unpacked into a folder of its own. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pack } from "../../scripts/check-package.ts";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { onRelease } from "../support/resources.ts";

/** Returns a folder in which `latchkey-client` is installed. It goes with the test file. */
export function installPackedClient(): string {
  // Below the repository's node_modules, so that the build finds the compiler.
  const cache = join(repositoryRoot, "node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "latchkey-client-"));
  onRelease(() => rmSync(folder, { recursive: true, force: true }));
  const packed = pack(folder, "packages/latchkey-client");
  if (typeof packed === "string") throw new Error(packed);
  const installed = join(folder, "node_modules/latchkey-client");
  mkdirSync(installed, { recursive: true });
  const untar = ["-xzf", packed.tarball, "--strip-components=1", "-C", installed];
  const { status, stderr } = spawnSync("tar", untar, { encoding: "utf8" });
  if (status !== 0) throw new Error(`tar ended with ${status}: ${stderr}`);
  return folder;
}
