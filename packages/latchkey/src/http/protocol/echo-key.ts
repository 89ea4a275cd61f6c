/** Repeats the key header in every answer to a request that has one. */
import { type HeaderEntry, isSendable, type Reply } from "./capture.ts";
import type { HttpRules } from "./http-options.ts";
import type { Incoming } from "./incoming.ts";
import { type Answered, type HttpOutcome, withHeaders } from "./outcome.ts";

/** The answer with the request's key header, if the rules ask for it and the request has one. */
export function echoed(rules: HttpRules, incoming: Incoming, answered: Answered): Answered;
export function echoed(rules: HttpRules, incoming: Incoming, outcome: HttpOutcome): HttpOutcome;
export function echoed(rules: HttpRules, incoming: Incoming, outcome: HttpOutcome): HttpOutcome {
  if (!rules.echoKey) return outcome;
  const { lines } = incoming.header(rules.header);
  const entry: HeaderEntry = [rules.header, lines[0] ?? ""];
  if (lines.length !== 1 || !isSendable(entry)) return outcome;
  if (outcome.kind === "pass") return { ...outcome, headers: [...outcome.headers, entry] };
  const reply: Reply = withHeaders(outcome.reply, [entry]);
  return outcome.kind === "handler"
    ? { ...outcome, reply, added: [...outcome.added, entry] }
    : { ...outcome, reply };
}
