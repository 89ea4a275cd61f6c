/** The contract of a command, and its context. */
import { shown } from "./text.ts";

export interface CommandContext {
  /** Arguments after the command's name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The user's project, from which clients such as `pg` are loaded. */
  readonly cwd: string;
  /** Writes a line of the result. */
  readonly print: (text: string) => void;
  /** Writes a line for a person, separate from the result. */
  readonly complain: (text: string) => void;
}

/** 0: done. 1: it failed. 2: it was called wrongly. 3: there is no such record. 4: refused, nothing was changed. */
export type ExitCode = 0 | 1 | 2 | 3 | 4;

export interface Command {
  /** One line for the list of commands. */
  readonly summary: string;
  /** What `--help` prints. */
  readonly help: string;
  /** @throws {UsageError} when it was called wrongly */
  run(context: CommandContext): Promise<ExitCode>;
}

/** The command was called wrongly; the message explains how. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** The command cannot do its work; the message gives the reason and what to do. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: ExitCode;

  constructor(message: string, options: { readonly cause?: unknown; readonly exitCode?: ExitCode } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.exitCode = options.exitCode ?? 1;
  }
}

/** Exit code 4: nothing was changed. The message may contain names that others chose. */
export function refusal(message: string): CommandError {
  return new CommandError(shown(message), { exitCode: 4 });
}
