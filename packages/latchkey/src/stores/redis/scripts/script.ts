import { createHash } from "node:crypto";
import { lua } from "./texts.ts";

/** One step on the server. */
export interface Script {
  readonly name: string;
  readonly text: string;
  /** The SHA-1 of its text, for EVALSHA. */
  readonly sha: string;
  /** Whether it begins an attempt, which must not happen once the caller has stopped waiting. */
  readonly begins: boolean;
  /** Whether its reply is a list that begins with the server's time. */
  readonly timed: boolean;
}

export function script(name: string, body: string, { begins = false, timed = false } = {}): Script {
  const text = `-- latchkey: ${name}\n${lua.prelude}\n${body}`;
  return { name, text, sha: createHash("sha1").update(text).digest("hex"), begins, timed };
}
