/** What a check is, and the context it runs in. */
import type { Marks } from "../compare.ts";
import type { FaultCode } from "../faults.ts";
import type { Profile } from "../profiles.ts";
import type { ProbeSettings } from "../settings.ts";
import type { Intention, Target } from "../target.ts";
import type { Answer, NoAnswer } from "../wire/answer.ts";
import type { CutAt } from "../wire/send.ts";

export interface Check {
  readonly name: string;
  /** What it tests, in one sentence. */
  readonly about: string;
  /** The maximum number of requests that it sends. */
  requestsMax(settings: ProbeSettings): number;
  /** Why it cannot run here; null if it can. */
  obstacle(target: Target, settings: ProbeSettings): string | null;
  /** Whether it shows nothing new if a repeated key runs again. */
  readonly needsReplays: boolean;
  run(context: CheckContext): Promise<void>;
}

/** The check has no result: its message says why, and what the operator can do about it. */
export class Inconclusive extends Error {
  override readonly name = "Inconclusive";
}

/** What requests under different keys have shown before the checks. */
export interface Baseline {
  /** The parts that differ between two executions; empty: their answers are all alike. */
  readonly marks: Marks;
  readonly keyForm: "bare" | "quoted";
  /** The answer to the first request. */
  readonly answer: Answer;
}

export interface SendOptions {
  /** Default 1. */
  readonly caller?: 1 | 2;
}

export interface CheckContext {
  readonly target: Target;
  readonly profile: Profile;
  readonly settings: ProbeSettings;
  readonly baseline: Baseline;
  /** A new intention; `body` is its template. Default: the target's body. */
  intend(body?: string, target?: Target): Intention;
  /** A new key. */
  newKey(): string;
  /** Sends under a key, in the syntax that the server accepts. @throws {NoAnswer} */
  send(intention: Intention, key: string, options?: SendOptions): Promise<Answer>;
  /** Sends these values of the key's header, one per field line. @throws {NoAnswer} */
  sendRaw(intention: Intention, keyLines: readonly string[]): Promise<Answer>;
  together(
    requests: readonly { intention: Intention; key: string }[],
  ): Promise<readonly (Answer | NoAnswer)[]>;
  cut(intention: Intention, key: string, cutAt: CutAt): Promise<Answer | null>;
  /** Sends, and repeats while the server says that the first request is still running. @throws {NoAnswer} */
  sendUntilFinal(intention: Intention, key: string, options?: SendOptions): Promise<Answer>;
  /** The number of effects so far, by the operator's count; null without one. */
  count(): Promise<number | null>;
  fault(code: FaultCode, message: string): void;
  note(text: string): void;
}

/** The maximum number of requests that `sendUntilFinal` sends. */
export const finalTriesMax = 8;

/** A description of the answer for messages. */
export function say({ status, lines }: Answer): string {
  const type = lines.find(([name]) => name === "content-type")?.[1];
  return type === undefined ? String(status) : `${status} (${type})`;
}

export function oneOf(statuses: readonly number[]): string {
  return statuses.join(" or ");
}

/** @throws {Inconclusive} if two executions cannot be distinguished */
export function demandTelling({ baseline, settings }: CheckContext): void {
  if (baseline.marks.size > 0 || settings.count !== null) return;
  throw new Inconclusive(
    "two executions answer alike, so it cannot be seen from outside whether it ran again; give --count with a URL that counts the effects",
  );
}
