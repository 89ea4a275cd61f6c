/** An operator's choices as commands to paste. */
import type { Action, Choice } from "../operator/advice.ts";
import { shellWord } from "./text.ts";

export interface CommandChoice {
  readonly when: string;
  readonly command: string;
}

/**
 * @param target id of the record or message, or name of the effect's death
 * @param place the options that name the database or service that was read
 * @param forRedrive further options for `redrive`
 */
export function commandChoices(
  choices: readonly Choice[],
  target: string,
  place: readonly string[],
  forRedrive: readonly string[] = [],
): readonly CommandChoice[] {
  return choices.map(({ when, action }) => {
    const more = action.kind === "redrive" ? forRedrive : [];
    const words = [
      "latchkey",
      ...wordsOf(action),
      ...more,
      ...place,
      "--operator <you> --reason <why>",
      target,
    ];
    return { when, command: words.join(" ") };
  });
}

/** Omits the address of a database, which may contain a password. */
export function placeWords(values: {
  readonly config?: string | undefined;
  readonly schema?: string | undefined;
  /** Without its token. */
  readonly console?: string | undefined;
}): readonly string[] {
  return (["config", "schema", "console"] as const).flatMap((option) => {
    const value = values[option];
    return value === undefined ? [] : [`--${option} ${shellWord(value)}`];
  });
}

function wordsOf(action: Action): readonly string[] {
  switch (action.kind) {
    case "redrive":
      return action.doubt === "cleared" ? ["redrive", "--never-happened"] : ["redrive"];
    case "discard":
      return ["discard"];
    case "settle":
      return ["settle", ...outcomeWords(action)];
    default:
      return action satisfies never;
  }
}

function outcomeWords(action: Extract<Action, { readonly kind: "settle" }>): readonly string[] {
  switch (action.outcome) {
    case "call":
      return ["--call", shellWord(action.call), "--result '<json>'"];
    case "not-executed":
      return action.proof === "operator"
        ? ["--not-executed"]
        : ["--not-executed --proof closed-downstream", "--downstream-key", shellWord(action.downstreamKey)];
    case "completed":
      return [`--completed '{"status":201,"body":{}}'`];
    case "failed":
      return [`--failed '{"status":502,"body":{}}'`];
    default:
      return action satisfies never;
  }
}
