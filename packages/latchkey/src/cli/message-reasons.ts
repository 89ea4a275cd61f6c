/** Why a message is dead, in words, and what a person may do about it. */
import type { DeadMessage } from "../messages/dead-messages.ts";
import type { MessageDeath } from "../messages/reasons.ts";
import type { Choice } from "./advice.ts";

interface Death {
  readonly text: string;
  /** When it is right to redrive it. Null: never, it would die of the same again. */
  readonly redriveWhen: string | null;
}

const mended = "If what made it fail is mended: it is published again, and runs once";

const deaths: Readonly<Record<MessageDeath, Death>> = {
  "missing-id": {
    text: "Its sender has named it by nothing, so its copies cannot be told from other messages.",
    redriveWhen: "If `republish` gives it an id: it runs under that one",
  },
  "invalid-id": { text: "Its id is too long, or cannot be stored.", redriveWhen: null },
  "tenant-missing": {
    text: "It could not be told whose it is.",
    redriveWhen: "If the tenant can be told by now: it is published again, and runs once",
  },
  undecodable: {
    text: "It is not what `decode` reads.",
    redriveWhen: "If `decode` reads it by now: it is published again, and runs once",
  },
  "key-misuse": {
    text: "A message of the same id has run that said something else. That one is untouched.",
    redriveWhen: null,
  },
  refused: { text: "Its handler said that it shall never run.", redriveWhen: mended },
  failed: { text: "It was tried as often as its inbox allows, and failed each time.", redriveWhen: mended },
  "kills-its-process": {
    text: "The processes that ran it died, one after the other: it may kill the process that runs it.",
    redriveWhen: "If it kills no more: it is published again, and runs once",
  },
  "outcome-unknown": {
    text: "Whether it has happened could not be found out. Its record waits for a person, too: see `latchkey list`.",
    redriveWhen: "Once its record is settled as not executed: it is published again, and runs once",
  },
  timeout: {
    text: "It was accepted, and no worker took it up in time.",
    redriveWhen: "Once its record is forgotten and a worker runs: it is published again, and runs once",
  },
};

export function messageReasonOf(reason: string): string | null {
  return Object.hasOwn(deaths, reason) ? deaths[reason as MessageDeath].text : null;
}

export function messageChoices({ id, reason }: Pick<DeadMessage, "id" | "reason">): readonly Choice[] {
  const signed = `--operator <you> --reason <why> ${id}`;
  const redriveWhen = Object.hasOwn(deaths, reason) ? deaths[reason].redriveWhen : mended;
  const discard = {
    when: "If it happened, or shall never happen: its letter is removed",
    command: `latchkey discard ${signed}`,
  };
  if (redriveWhen === null) return [discard];
  return [{ when: redriveWhen, command: `latchkey redrive --config <file> ${signed}` }, discard];
}
