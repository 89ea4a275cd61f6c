/** The picture of the library's floors, from the table that `check:boundaries` goes by. */
import { rules } from "./boundary-rules.ts";
import { renderTable } from "./sections.ts";

/** The contents of a floor. A new path in the table of floors needs a text here. */
const contents: Readonly<Record<string, string>> = {
  "testing/": "for users' tests: a store with faults, and a check for unprotected routes",
  "internal/": "what `latchkey-conformance` needs of the inside",
  "cli/": "the `latchkey` command",
  "index.ts": "what `latchkey` exports",
  "config.ts": "the command's configuration file",
  "operator/": "what people on call see and do, for the command line and the console",
  "http/": "the HTTP protocol, and a folder for each framework",
  "messages/": "the inbox, and an adapter for each broker",
  "tools/": "calls of agents' tools, of MCP servers and of agent SDKs",
  "webhooks/": "receivers of webhooks, and a source for each kind of sender",
  "latchkey.ts": "`createLatchkey`: puts the parts together",
  "workers/": "background services, all of one anatomy",
  "outbox/": "delivers the effects that were committed",
  "execution/": "one submission from admission to its result",
  "operations/": "what a user defines: operations, policies, limits, answers",
  "routing/": "several stores as one, by tenant",
  "caching/": "copies of finished records in front of a store",
  "effects/": "what an effect is, and one send of it",
  "telemetry/": "events, metrics and spans",
  "stores/": "the store contract, and a folder for each store",
  "sql/": "the transaction contract, and a bridge for each database client",
  "time/": "time limits, pauses between tries, circuit breaker",
  "key/": "reading, checking and hashing keys",
  "codec.ts": "how stored bytes are encoded",
  "encryption.ts": "a codec that encrypts",
  "engine/": "the record, its states and every decision about it; pure",
  "fingerprint/": "digests of requests; pure",
  "ports.ts": "clock, timers and randomness",
  "errors.ts": "every error code",
  "known-options.ts": "refuses options that are unknown",
  "node-version.ts": "refuses a Node that is too old",
  "plain-text.ts": "text that is safe to print",
};

/** Small boxes, so that the whole picture fits on one screen. */
const layout = { flowchart: { padding: 4, rankSpacing: 14, wrappingWidth: 640 } };

/**
 * The floors as a diagram and a table, top to bottom.
 *
 * @throws {TypeError} when a path has no text, or a text no path
 */
export function renderFloors(floors: readonly (readonly string[])[] = rules.floors): string {
  const paths = floors.flat();
  const unknown = Object.keys(contents).filter((path) => !paths.includes(path));
  if (unknown.length > 0) throw new TypeError(`No floor has ${unknown.join(", ")}`);
  const ids = floors.map((_, index) => `floor${index + 1}`);
  return [
    "```mermaid",
    `%%{init: ${JSON.stringify(layout)}}%%`,
    "flowchart TB",
    ...floors.map((floor, index) => `  ${ids[index]}["${floor.join(", ")}"]`),
    `  ${ids.join(" --> ")}`,
    "```",
    "",
    renderTable(
      ["Floor", "What is there"],
      paths.map((path) => [`\`${path}\``, contentOf(path)]),
    ),
  ].join("\n");
}

function contentOf(path: string): string {
  const content = contents[path];
  if (content === undefined) throw new TypeError(`scripts/support/floors.ts does not say what ${path} is`);
  return content;
}
