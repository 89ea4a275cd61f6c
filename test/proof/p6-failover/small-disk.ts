/** A file system of a few megabytes in memory, for filling up. Mounting one needs root. */
import { execFile } from "node:child_process";
import { chmodSync, chownSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { onRelease } from "../../support/resources.ts";
import { isRoot, scratchDirectory, serverUser } from "../../support/scratch.ts";

const run = promisify(execFile);

export interface SmallDisk {
  readonly path: string;
  /** Leaves nothing free. */
  fill(): void;
  /** What `fill` took is free again. */
  free(): void;
  close(): Promise<void>;
}

/** Null: this machine does not let us mount. */
export async function mountSmallDisk(megabytes: number): Promise<SmallDisk | null> {
  if (!isRoot || process.platform !== "linux") return null;
  const path = scratchDirectory();
  try {
    await run("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=0755`, "tmpfs", path]);
  } catch {
    await rm(path, { recursive: true, force: true });
    return null;
  }
  const user = serverUser();
  if (user !== undefined) chownSync(path, user.uid, user.gid);
  chmodSync(path, 0o755);
  const ballast = join(path, "ballast");
  let open = true;
  const close = async () => {
    if (!open) return;
    open = false;
    forget();
    // Lazily: whoever still has files open there keeps them.
    await run("umount", ["-l", path]);
    await rm(path, { recursive: true, force: true });
  };
  const forget = onRelease(close);
  return {
    path,
    fill() {
      const { bavail, bsize } = statfsSync(path);
      try {
        writeFileSync(ballast, Buffer.alloc(bavail * bsize + bsize));
      } catch (error) {
        // It takes all there is and fails: that is what is wanted.
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    },
    free: () => rmSync(ballast, { force: true }),
    close,
  };
}
