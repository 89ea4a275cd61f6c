/** A command's client for the console of a running process. */
import { type CommandContext, CommandError, UsageError } from "./command.ts";
import { shown } from "./text.ts";

const tokenVariable = "LATCHKEY_CONSOLE_TOKEN";

/** Lines in the help of commands. */
export const consoleHelp = `\
  --console <address>   uses the console of a running process instead of a database, as for PGlite, which belongs to its
                        process: the address that it printed, with the token after #token= or in ${tokenVariable}`;

/** Whether the command was called with `--console`. */
export function asksConsole(args: readonly string[]): boolean {
  return args.some((arg) => arg === "--console" || arg.startsWith("--console="));
}

export interface ConsoleClient {
  /** Without the token. */
  readonly address: string;
  get<T>(path: string, query: Readonly<Record<string, string | null | undefined>>): Promise<T>;
  /** A refusal is an answer, too: its `kind` says so. */
  post<T>(path: string, operator: string, fields: unknown): Promise<T>;
}

/**
 * @throws {UsageError} when the address is invalid, or there is no token.
 */
export function openConsole({ env }: CommandContext, given: string | undefined): ConsoleClient {
  const url = addressOf(given ?? "");
  const token = new URLSearchParams(url.hash.slice(1)).get("token") ?? env[tokenVariable] ?? "";
  if (token === "") {
    throw new UsageError(
      `The console needs a token: pass it in the address after #token=, or set ${tokenVariable}.`,
    );
  }
  const address = `${url.origin}${url.pathname.replace(/\/+$/u, "")}`;
  const ask = (path: string, operator: string, init: RequestInit) =>
    answerOf(address, () =>
      fetch(`${address}/api/${path}`, {
        redirect: "error",
        ...init,
        headers: {
          authorization: `Bearer ${token}`,
          "x-latchkey-console": "1",
          "x-latchkey-operator": checkedOperator(operator),
        },
      }),
    );
  return {
    address,
    get: async (path, query) => {
      const set = Object.entries(query).flatMap(([name, value]) =>
        value ? [[name, value] as [string, string]] : [],
      );
      return (await ask(`${path}?${new URLSearchParams(set)}`, "", {})) as never;
    },
    post: async (path, operator, fields) =>
      (await ask(path, operator, { method: "POST", body: JSON.stringify(fields) })) as never,
  };
}

/** @throws {UsageError} for letters that a header cannot contain */
function checkedOperator(name: string): string {
  if (/^[\x20-\x7e\u00a0-\u00ff]*$/u.test(name)) return name;
  throw new UsageError("With --console, --operator may only have Latin-1 letters.");
}

function addressOf(text: string): URL {
  if (URL.canParse(text)) {
    const url = new URL(text);
    if (url.protocol === "http:" || url.protocol === "https:") return url;
  }
  throw new UsageError("--console takes the address of a console, such as http://127.0.0.1:3000/console.");
}

async function answerOf(address: string, ask: () => Promise<Response>): Promise<unknown> {
  const response = await ask().catch((error: unknown) => {
    throw new CommandError(`The console at ${address} does not answer: ${reasonOf(error)}`, { cause: error });
  });
  const body: unknown = await response.json().catch(() => null);
  if (!isObject(body)) throw new CommandError(`No Latchkey console runs at ${address}.`);
  // A refusal of the request has its own kind.
  if (response.ok || (response.status === 409 && "kind" in body)) return body;
  const { title = `It answered ${response.status}.`, detail = "" } = body;
  throw new CommandError(shown(`${title} ${detail}`.trim()));
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message : String(cause);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
