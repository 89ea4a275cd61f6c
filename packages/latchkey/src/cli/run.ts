import { StoreError } from "../errors.ts";
import { type Command, type CommandContext, CommandError, type ExitCode, UsageError } from "./command.ts";
import { discard, redrive } from "./decide-dead.ts";
import { inspect } from "./inspect.ts";
import { list } from "./list.ts";
import { migrate } from "./migrate.ts";
import { settle } from "./settle.ts";
import { worker } from "./worker.ts";

const commands: ReadonlyMap<string, Command> = new Map([
  ["migrate", migrate],
  ["inspect", inspect],
  ["list", list],
  ["settle", settle],
  ["redrive", redrive],
  ["discard", discard],
  ["worker", worker],
]);

/** Runs the command that the first argument names. Never throws: what goes wrong is printed. */
export async function run(context: CommandContext): Promise<ExitCode> {
  const [name, ...args] = context.args;
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    context.print(overview());
    return name === undefined ? 2 : 0;
  }
  const command = commands.get(name);
  if (command === undefined) {
    context.complain(`There is no command "${name}".\n\n${overview()}`);
    return 2;
  }
  if (args.includes("--help") || args.includes("-h")) {
    context.print(command.help);
    return 0;
  }
  try {
    return await command.run({ ...context, args });
  } catch (error) {
    return explain(context, command, error);
  }
}

function overview(): string {
  const lines = [...commands].map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}`);
  return [
    "Usage: latchkey <command> [options]",
    "",
    ...lines,
    "",
    "latchkey <command> --help says more.",
  ].join("\n");
}

function explain(context: CommandContext, command: Command, error: unknown): ExitCode {
  if (error instanceof UsageError) {
    context.complain(`${error.message}\n\n${command.help}`);
    return 2;
  }
  context.complain(error instanceof Error ? messageOf(error) : String(error));
  return error instanceof CommandError ? error.exitCode : 1;
}

/** A refused connection to a name with two addresses is an error without a message, with two errors in it. */
function messageOf(error: Error): string {
  if (error instanceof AggregateError && error.message === "") return error.errors.map(String).join("; ");
  const because = error instanceof StoreError && error.cause instanceof Error ? error.cause : null;
  const message = error.message === "" ? error.name : error.message;
  return because === null ? message : `${message}\nThe database said: ${messageOf(because)}`;
}
