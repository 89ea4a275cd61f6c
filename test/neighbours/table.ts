/**
 * What stands around protected routes in services. Which front end is run with which, under which package's name, says each
 * framework's entry in the registry; docs/adapters/neighbours.md is made from both.
 */
import type { HttpCall } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import type { AnswerKind } from "./world.ts";

interface Row {
  /** What to heed, where there is something to heed. */
  readonly note?: string;
}

export const table = {
  helmet: {},
  cors: {},
  compression: {},
  etag: {
    note: "A streamed answer is buffered until it is complete, so it may get an ETag that a stream does not get.",
  },
  responseTime: {},
  sessions: { note: "A replay does not run the handler, so it does not set the session's cookie." },
  secureSessions: {},
  accounts: {},
  morgan: {},
  pino: {},
  rateLimits: { note: "A replay counts as a request." },
  flexibleLimits: {},
  nestParts: {},
  graphqlYoga: { note: "One request has one key, even if it contains several mutations." },
  trpc: { note: "A batch is one request and has one key." },
  routeHandlers: {},
  callers: {},
} as const satisfies Readonly<Record<string, Row>>;

export type NeighbourName = keyof typeof table;

/** What a file of its own runs, since it needs another frame than one app and its answers. */
export const runAside = {
  openTelemetry: {},
  trustedProxy: {},
} as const satisfies Readonly<Record<string, Row>>;

/** The packages' names, as a reader of the documentation looks for them. */
export type NamedNeighbours = Readonly<Partial<Record<NeighbourName | keyof typeof runAside, string>>>;

/** What a neighbour does to requests and answers, whichever front end it is mounted in. */
export interface Trait {
  /** What the client sends. Default: a JSON body to POST /run. */
  readonly request?: HttpCall;
  /** The same key with other content; null where nothing about the content is in the fingerprint. Default: another JSON body. */
  readonly otherRequest?: HttpCall | null;
  /** Headers whose values no two requests share, also in the app without Latchkey. */
  readonly random?: readonly string[];
  /** Headers that the neighbour gives each request anew, so that a replay has other values than the first answer. */
  readonly ofEachRequest?: readonly string[];
  /** Headers that the neighbour lets the handler set and that no replay has, such as cookies. */
  readonly leftOut?: readonly string[];
  /** Whether the neighbour writes the status of each answer to `world.logged`. Default false. */
  readonly logs?: boolean;
  /** Default: all of them. */
  readonly answers?: readonly AnswerKind[];
}

export type Traits<N extends NeighbourName> = Readonly<Record<N, Trait>>;
