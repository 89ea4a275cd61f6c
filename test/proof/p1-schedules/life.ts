/** The life of one process: the replies that it got, and what it waits for since. */
import type { NewLife } from "../../../packages/latchkey/src/stores/life.ts";
import type { Input, Pending } from "./process.ts";

/** Something that was asked for and is not answered yet. */
export interface Waiting extends Pending {
  /** The same in all lives that wait for the same. */
  readonly id: number;
  readonly text: string;
}

/** The inputs of a process from its beginning, and what has become of it. */
export interface Life {
  readonly parent: Life | null;
  /** What led here from its parent. */
  readonly input: Input;
  /** In an order that does not depend on who asked first. */
  readonly pending: readonly Waiting[];
  /** When its next timer is due; null: it has none. */
  readonly dueMs: number | null;
  readonly outcome: string | null;
  /** It has ended, and nothing of it is left. */
  readonly isOver: boolean;
  /** Numbers of all its inputs, sorted, each once. */
  readonly facts: readonly number[];
}

export function inputsTo(life: Life): readonly Input[] {
  const inputs: Input[] = [];
  for (let at: Life | null = life; at !== null; at = at.parent) inputs.push(at.input);
  return inputs.reverse();
}

/** The token under which it has last asked to be admitted; null: it has not, or has given back what that may bring. */
export function admissionToken(from: Life): string | null {
  for (let at: Life | null = from; at !== null; at = at.parent) {
    for (const { port, args } of at.pending) {
      if (port === "end") return null;
      if (port === "create") return (args[0] as NewLife).fence.token;
      if (port === "takeOver") return args[3] as string;
    }
  }
  return null;
}
