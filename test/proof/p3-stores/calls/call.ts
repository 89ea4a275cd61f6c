/** A call on the contract, written down so that it can be made on every store. */
import type { Choices } from "../../p2-random/choices.ts";
import type { Subject } from "../bench.ts";
import type { CallWorld, Flavour } from "./world.ts";

export interface Call {
  /** Of the contract. */
  readonly name: string;
  /** What it is called with, to be shown and to be made. */
  readonly given: readonly unknown[];
  readonly flavour?: Flavour;
  make(on: Subject): Promise<unknown>;
  /** The order in a list that it answers is nobody's promise. */
  readonly unordered?: boolean;
  /** It says what is true now and may not be later: it is not made again. */
  readonly once?: boolean;
  /** From the reply, which is the same on every store. */
  learn?(value: unknown): void;
  /** Beside the name and the kind of its outcome, for the counters. */
  readonly counts?: (value: unknown) => readonly string[];
}

/** Makes a call of the numbers that are left. Null: there is nothing to make it of. */
export type CallKind = (choices: Choices, world: CallWorld) => Promise<Call | null> | Call | null;

export type CallKinds = Readonly<Record<string, CallKind>>;
