/** Wall clocks that are wrong, or jump, by libfaketime. The machine's own clock and all monotonic ones stay as they are. */
import { rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { debianTool } from "../../support/debian-tools.ts";
import { onRelease } from "../../support/resources.ts";
import { scratchDirectory } from "../../support/scratch.ts";

export interface JumpingClock {
  /** For the process that is to have it. */
  readonly environment: Readonly<Record<string, string>>;
  /** From now on it is so many hours off. */
  set(hours: number): void;
}

/** Null where libfaketime is not to be had. */
export async function jumpingClock(): Promise<JumpingClock | null> {
  const library = await debianTool("faketime");
  if (library === null) return null;
  const folder = scratchDirectory("us");
  onRelease(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "offset");
  const set = (hours: number) => writeFileSync(file, `${hours < 0 ? "" : "+"}${hours * 3_600}\n`);
  set(0);
  return {
    environment: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    },
    set,
  };
}

/** For a Node process whose wall clock is to be off by so much for as long as it lives. */
export async function wrongClock(hours: number): Promise<Readonly<Record<string, string>>> {
  const library = await debianTool("faketime");
  if (library === null) throw new Error("libfaketime is not to be had");
  return {
    LD_PRELOAD: join(dirname(library), "libfaketimeMT.so.1"),
    FAKETIME: `${hours < 0 ? "" : "+"}${hours}h`,
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
  };
}
