import type { FaultCode } from "../faults.ts";
import { type Answer, isAccepted } from "../wire/answer.ts";
import { type Check, type CheckContext, say } from "./check.ts";
import { compare, ranAgain } from "./judge.ts";

interface Form {
  readonly name: string;
  readonly refused: FaultCode;
  readonly ranTwice: FaultCode;
  /** The profile whose servers must accept it. */
  readonly demandedBy: "structured" | "bare";
  write(key: string): string;
}

const forms: readonly Form[] = [
  {
    name: "in quotes",
    refused: "quoted-key-refused",
    ranTwice: "quoted-key-ran-twice",
    demandedBy: "structured",
    write: (key) => `"${key}"`,
  },
  {
    name: "without quotes",
    refused: "bare-key-refused",
    ranTwice: "bare-key-ran-twice",
    demandedBy: "bare",
    write: (key) => key,
  },
];

export const headerSyntax: Check = {
  name: "header-syntax",
  about: "keys are read in the profile's syntax: bare, or in quotes as a String of structured fields",
  needsReplays: true,
  requestsMax: () => 6,
  obstacle: () => null,
  async run(context) {
    const taken: boolean[] = [];
    for (const form of forms) taken.push(await judgeForm(context, form));
    if (taken.every(Boolean)) await noteMixed(context);
  },
};

async function judgeForm(
  context: CheckContext,
  { name, refused, ranTwice, demandedBy, write }: Form,
): Promise<boolean> {
  const intention = context.intend();
  const line = write(context.newKey());
  const first = await context.sendRaw(intention, [line]);
  if (!isAccepted(first)) {
    const text = `a key ${name} is answered with ${say(first)}`;
    if (context.profile.syntax === demandedBy) context.fault(refused, text);
    else context.note(text);
    return false;
  }
  const again = await context.sendRaw(intention, [line]);
  if (ranAgain(context, first, again))
    context.fault(ranTwice, `a retry with a key ${name} is another execution`);
  return true;
}

/**
 * A client that starts to use quotes while it retries: servers differ in this, and the operator should know which applies.
 */
async function noteMixed(context: CheckContext): Promise<void> {
  if (context.baseline.marks.size === 0) return;
  const intention = context.intend();
  const key = context.newKey();
  const bare: Answer = await context.sendRaw(intention, [key]);
  const quoted: Answer = await context.sendRaw(intention, [`"${key}"`]);
  const same = isAccepted(quoted) && compare(context, bare, quoted).kind !== "other-run";
  context.note(same ? 'k and "k" are the same key' : 'k and "k" are two keys');
}
