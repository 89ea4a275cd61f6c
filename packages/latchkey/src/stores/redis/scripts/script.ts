import { createHash } from "node:crypto";
import { prelude } from "./prelude.ts";

/** One step on the server. */
export interface Script {
  readonly name: string;
  readonly text: string;
  /** What EVALSHA calls it by: SHA-1 of its text. */
  readonly sha: string;
}

export function script(name: string, body: string): Script {
  const text = `-- latchkey: ${name}\n${prelude}\n${body}`;
  return { name, text, sha: createHash("sha1").update(text).digest("hex") };
}
