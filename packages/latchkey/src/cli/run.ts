import { readFileSync } from "node:fs";
import { StoreError } from "../errors.ts";
import { audit } from "./audit.ts";
import { type Command, type CommandContext, CommandError, type ExitCode, UsageError } from "./command.ts";
import { operatorConsole } from "./console.ts";
import { asksConsole } from "./console-client.ts";
import { discard, redrive } from "./decide-dead.ts";
import { deleteTenant } from "./delete-tenant.ts";
import { doctor } from "./doctor.ts";
import { forget, retry } from "./hasten.ts";
import { inspect } from "./inspect.ts";
import { list } from "./list.ts";
import { migrate } from "./migrate.ts";
import { overConsole } from "./over-console.ts";
import { settle } from "./settle.ts";
import { shown, shownLines } from "./text.ts";
import { worker } from "./worker.ts";

const commands: ReadonlyMap<string, Command> = new Map([
  ["migrate", migrate],
  ["doctor", doctor],
  ["audit", audit],
  ["inspect", inspect],
  ["list", list],
  ["settle", settle],
  ["retry", retry],
  ["forget", forget],
  ["redrive", redrive],
  ["discard", discard],
  ["delete-tenant", deleteTenant],
  ["worker", worker],
  ["console", operatorConsole],
]);

/**
 * Runs the command that the first argument names. Never throws: it prints errors. All output passes through one function
 * here, because keys, paths, option values and a database's messages are text from others.
 */
export async function run({ print, complain, ...given }: CommandContext): Promise<ExitCode> {
  const context: CommandContext = {
    ...given,
    print: (text) => print(shownLines(text)),
    complain: (text) => complain(shownLines(text)),
  };
  const [name, ...args] = context.args;
  if (name === "--version" || name === "-v" || name === "version") {
    context.print(ownVersion());
    return 0;
  }
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    context.print(overview());
    return name === undefined ? 2 : 0;
  }
  const command = commands.get(name);
  if (command === undefined) {
    context.complain(`There is no command "${shown(name)}".\n\n${overview()}`);
    return 2;
  }
  if (args.includes("--help") || args.includes("-h")) {
    context.print(command.help);
    return 0;
  }
  try {
    const runOver = asksConsole(args) ? overConsole.get(name) : undefined;
    return await (runOver ?? command.run)({ ...context, args });
  } catch (error) {
    return explain(context, command, error);
  }
}

function overview(): string {
  const lines = [...commands].map(([name, { summary }]) => `  ${name.padEnd(14)} ${summary}`);
  return [
    "Usage: latchkey <command> [options]",
    "",
    ...lines,
    "",
    "latchkey <command> --help prints its options; latchkey --version prints the version.",
  ].join("\n");
}

function unreachable(why: string): string {
  return `The database cannot be reached (${why}). Check --database-url or DATABASE_URL.`;
}

function ownVersion(): string {
  const manifest: { readonly version: string } = JSON.parse(
    readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
  );
  return manifest.version;
}

function explain(context: CommandContext, command: Command, error: unknown): ExitCode {
  if (error instanceof UsageError) {
    context.complain(`${oneBlock(error.message)}\n\n${command.help}`);
    return 2;
  }
  context.complain(oneBlock(error instanceof Error ? messageOf(error) : String(error)));
  return error instanceof CommandError ? error.exitCode : 1;
}

/** A message may quote text from others: its further lines must not look like the command's own. */
function oneBlock(message: string): string {
  return message.replaceAll("\n", "\n  ");
}

/** A refused connection to a name with two addresses is an error without a message that contains two errors. */
function messageOf(error: Error): string {
  if (error instanceof AggregateError && error.message === "") {
    return unreachable(error.errors.map(String).join("; "));
  }
  if ("syscall" in error && (error.syscall === "connect" || error.syscall === "getaddrinfo")) {
    return unreachable(error.message);
  }
  const because = error instanceof StoreError && error.cause instanceof Error ? error.cause : null;
  const message = error.message === "" ? error.name : error.message;
  return because === null ? message : `${message}\nThe database reported: ${messageOf(because)}`;
}
