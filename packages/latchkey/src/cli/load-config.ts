/** Loads the user's `latchkey.config.ts`. */
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { configNames, type LatchkeyConfig } from "../config.ts";
import { LatchkeyError } from "../errors.ts";
import { CommandError } from "./command.ts";

const fields: readonly string[] = Object.keys(configNames);
const expected =
  `It must contain \`export default { ${fields.join(", ")} }\`: \`latchkey\` is what \`createLatchkey\` returned; the others are ` +
  "optional: `worker` (options of `startWorker`), `metrics` (what `createMetrics` returned), `republish` (publishes a dead " +
  "message again) and `close` (called at the end).";

/** @throws {CommandError} when there is no such file, it cannot be loaded, or its default export is invalid. */
export async function loadConfig(path: string): Promise<LatchkeyConfig<unknown>> {
  if (!existsSync(path)) {
    throw wrong(`There is no file ${path}. Name it with --config. ${expected}`);
  }
  return checked(path, await imported(path));
}

/** @throws {CommandError} when it cannot be loaded. */
export async function imported(
  path: string,
): Promise<{ readonly default?: unknown; readonly app?: unknown }> {
  try {
    return (await import(pathToFileURL(path).href)) as { readonly default?: unknown };
  } catch (cause) {
    if (isError(cause) && cause.code === "ERR_UNKNOWN_FILE_EXTENSION" && /\.[cm]?ts$/u.test(path)) {
      const message = `${path} cannot be loaded: Node ${process.versions.node} does not run TypeScript. Use Node 22.18 or newer, or write the file in JavaScript.`;
      throw wrong(message, cause);
    }
    // A LatchkeyError's message is enough; for other errors the stack shows the place.
    const why = cause instanceof LatchkeyError ? cause.message : isError(cause) ? cause.stack : String(cause);
    throw new CommandError(`${path} cannot be loaded: ${why}`, { cause });
  }
}

function isError(error: unknown): error is Error & { readonly code?: unknown } {
  return error instanceof Error;
}

function checked(path: string, module: { readonly default?: unknown }): LatchkeyConfig<unknown> {
  const config = unwrapped(module.default);
  if (config === undefined) throw wrong(`${path} has no default export. ${expected}`);
  if (!isObject(config)) throw wrong(`The default export of ${path} is not an object. ${expected}`);
  const unknown = Object.keys(config).find((field) => !fields.includes(field));
  if (unknown !== undefined) {
    throw wrong(`The default export of ${path} has an unknown field ${JSON.stringify(unknown)}. ${expected}`);
  }
  if (!isObject(config.latchkey) || typeof config.latchkey.startWorker !== "function") {
    throw wrong(`In ${path}, \`latchkey\` is not what \`createLatchkey\` returned. ${expected}`);
  }
  if (config.worker !== undefined && !isObject(config.worker)) {
    throw wrong(`In ${path}, \`worker\` is not an object of options. ${expected}`);
  }
  if (
    config.metrics !== undefined &&
    (!isObject(config.metrics) || typeof config.metrics.text !== "function")
  ) {
    throw wrong(`In ${path}, \`metrics\` is not what \`createMetrics\` returned. ${expected}`);
  }
  for (const field of ["republish", "close"] as const) {
    if (config[field] === undefined || typeof config[field] === "function") continue;
    throw wrong(`In ${path}, \`${field}\` is not a function. ${expected}`);
  }
  return config as unknown as LatchkeyConfig<unknown>;
}

/** A module compiled to CommonJS has its default export one level deeper. */
export function unwrapped(exported: unknown): unknown {
  return isObject(exported) && exported.__esModule === true ? exported.default : exported;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function wrong(message: string, cause?: unknown): CommandError {
  return new CommandError(message, { exitCode: 2, ...(cause !== undefined && { cause }) });
}
