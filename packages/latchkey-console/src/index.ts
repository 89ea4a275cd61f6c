/** Module `latchkey-console`: the page for the person on call, as one handler. */
export { type ConsoleHandler, consoleHandler } from "./handler.ts";
export { createHistory, type History, type HistoryOptions } from "./history.ts";
export type {
  ConsoleOptions,
  ConsoleUser,
  HostAccess,
  Redact,
  StoredValue,
  TokenAccess,
} from "./options.ts";
export { nodeConsole, type ServedConsole, type ServeOptions, serveConsole } from "./serve.ts";
