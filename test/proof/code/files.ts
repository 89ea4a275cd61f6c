/** A working tree, by paths relative to its root. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

export interface Files {
  /** Null: there is no such file. */
  read(path: string): string | null;
  /** Sorted; none: there is no such folder. */
  names(folder: string): readonly string[];
}

export function filesBelow(root: string): Files {
  const at = (path: string) => statSync(join(root, path), { throwIfNoEntry: false });
  return {
    read: (path) => (at(path)?.isFile() === true ? readFileSync(join(root, path), "utf8") : null),
    names: (folder) => (at(folder)?.isDirectory() === true ? readdirSync(join(root, folder)).sort() : []),
  };
}
