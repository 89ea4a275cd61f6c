/** `latchkey console`: serves the operator's page from the package `latchkey-console` of the user's project. */
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { createLatchkey, type Latchkey } from "../latchkey.ts";
import type { Republish } from "../messages/dead-messages.ts";
import { type Command, type CommandContext, CommandError, type ExitCode, UsageError } from "./command.ts";
import { loadConfig } from "./load-config.ts";
import { databaseHelp, databaseOptions, parse, wholeNumber } from "./options.ts";
import { stopSignals } from "./stop-signals.ts";
import { type DatabaseValues, withStore } from "./with-store.ts";

const configDefault = "latchkey.config.ts";
const portDefault = 4_080;
const tokenVariable = "LATCHKEY_CONSOLE_TOKEN";

const help = `Usage: latchkey console [options]

Serves the console: what is unknown, dead or waiting, why, and what you may do. It prints its address, with a token
after a #, and runs until it is stopped. It needs the package latchkey-console in your project.

  --config <file>         the service's config, whose store, codec and \`republish\` are used; default: ${configDefault}
  --port <n>              default: ${portDefault}; 0: any free one
  --host <address>        the address to listen on; default: 127.0.0.1, this machine only
  --title <text>          shown as the page's title, such as production
  --read-only             nothing can be settled, redriven or given up
  --show-values           shows stored inputs, results and answers; default: their structure, with every value masked
${databaseHelp}
                          With one of these instead of --config the console is read-only, because its writes would not pass the
                          service's codec.

The variable ${tokenVariable} sets the token, at least 16 characters; default: a new one at each start.

Exit codes: 0 stopped, 1 failed, or latchkey-console is not installed, 2 called wrongly or invalid config.`;

export const operatorConsole: Command = {
  summary: "serve the page for the person on call",
  help,
  async run(context) {
    const options = readOptions(context.args);
    const token = tokenOf(context);
    const module = await consoleModule(context);
    const serve = (latchkey: Latchkey<never>, republish: Republish | null, readOnly: boolean) =>
      runUntilStopped(context, module, { ...options, latchkey, republish, readOnly, token });
    if (options.database !== null) {
      return withStore(context, options.database, async (store) =>
        serve(createLatchkey({ store }) as unknown as Latchkey<never>, null, true),
      );
    }
    const config = await loadConfig(resolve(context.cwd, options.config));
    try {
      await config.latchkey.runtime.store.verify();
      const latchkey = config.latchkey as unknown as Latchkey<never>;
      return await serve(latchkey, config.republish ?? null, options.readOnly);
    } finally {
      await config.close?.();
    }
  },
};

interface Options {
  readonly config: string;
  /** Null: the config's. */
  readonly database: DatabaseValues | null;
  readonly port: number;
  readonly host: string | undefined;
  readonly title: string | undefined;
  readonly readOnly: boolean;
  readonly showValues: boolean;
}

function readOptions(args: readonly string[]): Options {
  const { values } = parse({
    args: [...args],
    options: {
      ...databaseOptions,
      config: { type: "string" },
      port: { type: "string" },
      host: { type: "string" },
      title: { type: "string" },
      "read-only": { type: "boolean" },
      "show-values": { type: "boolean" },
    },
  });
  const { "database-url": url, schema, config } = values;
  const hasDatabase = url !== undefined || schema !== undefined;
  if (hasDatabase && config !== undefined) {
    throw new UsageError("--config and --database-url or --schema exclude each other.");
  }
  return {
    config: config ?? configDefault,
    database: hasDatabase ? values : null,
    port: wholeNumber("port", values.port ?? String(portDefault), 0, 65_535),
    host: values.host,
    title: values.title,
    readOnly: values["read-only"] ?? false,
    showValues: values["show-values"] ?? false,
  };
}

const tokenLengthMin = 16;

function tokenOf({ env }: CommandContext): string {
  const token = env[tokenVariable];
  if (token === undefined || token === "") return randomBytes(24).toString("base64url");
  if (token.length >= tokenLengthMin) return token;
  throw new UsageError(`${tokenVariable} must have at least ${tokenLengthMin} characters.`);
}

/** The part of `import("latchkey-console")` that the command uses. */
interface ConsoleModule {
  consoleHandler(options: {
    readonly latchkey: Latchkey<never>;
    readonly token: string;
    readonly readOnly: boolean;
    readonly redact: boolean;
    readonly republish?: Republish;
    readonly title?: string;
  }): unknown;
  serveConsole(
    handler: unknown,
    options: { readonly port: number; readonly host?: string },
  ): Promise<{ readonly port: number; close(): Promise<void> }>;
}

/** @throws {CommandError} when the project does not have it. */
async function consoleModule({ cwd }: CommandContext): Promise<ConsoleModule> {
  try {
    const path = createRequire(join(cwd, "package.json")).resolve("latchkey-console");
    return (await import(pathToFileURL(path).href)) as ConsoleModule;
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause && cause.code === "MODULE_NOT_FOUND")) throw cause;
    throw new CommandError(
      `The package "latchkey-console" is not installed in ${cwd}. Run \`npm install latchkey-console\` there.`,
      { cause },
    );
  }
}

interface ServeOptions extends Options {
  readonly latchkey: Latchkey<never>;
  readonly republish: Republish | null;
  readonly token: string;
}

async function runUntilStopped(
  { print }: CommandContext,
  { consoleHandler, serveConsole }: ConsoleModule,
  options: ServeOptions,
): Promise<ExitCode> {
  const { latchkey, republish, token, readOnly, title, host } = options;
  const handler = consoleHandler({
    latchkey,
    token,
    readOnly,
    redact: !options.showValues,
    ...(republish !== null && { republish }),
    ...(title !== undefined && { title }),
  });
  const stopping = stopSignals();
  try {
    const served = await serveConsole(handler, { port: options.port, ...(host !== undefined && { host }) });
    print(`Console on http://${addressOf(host)}:${served.port}/#token=${encodeURIComponent(token)}`);
    if (readOnly) print("It is read-only.");
    await stopping.first;
    await served.close();
    return 0;
  } finally {
    stopping.forget();
  }
}

/** The address that a browser on this machine can open. */
function addressOf(host = "127.0.0.1"): string {
  if (host === "0.0.0.0" || host === "::") return "127.0.0.1";
  return host.includes(":") ? `[${host}]` : host;
}
