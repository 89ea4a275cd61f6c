import { type Command, type CommandContext, CommandError, type ExitCode, UsageError } from "./command.ts";
import { migrate } from "./migrate.ts";

const commands: ReadonlyMap<string, Command> = new Map([["migrate", migrate]]);

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
  if (error instanceof CommandError) context.complain(error.message);
  else context.complain(error instanceof Error ? messageOf(error) : String(error));
  return 1;
}

/** A refused connection to a name with two addresses is an error without a message, with two errors in it. */
function messageOf(error: Error): string {
  if (error.message !== "") return error.message;
  return error instanceof AggregateError ? error.errors.map(String).join("; ") : error.name;
}
