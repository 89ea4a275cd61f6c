/** Module `latchkey-console`: the page for the person on call, as one handler. */

export type { Redact, StoredValue } from "latchkey";
export { type ConsoleHandler, consoleHandler } from "./handler.ts";
export { createHistory, type History, type HistoryOptions } from "./history.ts";
export type {
  ConsoleOptions,
  ConsoleUser,
  HostAccess,
  TokenAccess,
} from "./options.ts";
export { nodeConsole, type ServedConsole, type ServeOptions, serveConsole } from "./serve.ts";
