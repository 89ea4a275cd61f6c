/**
 * A small server that keeps its keys right, in memory. Each of its decisions is a member of `Behaviour`, so that a test can
 * make it wrong in one of them.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { setImmediate as turn } from "node:timers/promises";
import { type Listening, listen } from "../support/listen.ts";

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Request {
  readonly path: string;
  readonly tenant: string;
  readonly key: string;
  readonly body: string;
  /** Whether the client has hung up. */
  readonly isGone: () => boolean;
}

interface Entry {
  readonly fingerprint: string;
  readonly tenant: string;
  /** Null while it runs. */
  reply: Reply | null;
}

export type KeyReading = { readonly key: string } | { readonly refused: "missing" | "malformed" | "empty" };

export interface Behaviour {
  readKey(lines: readonly string[]): KeyReading;
  /** Null: it runs without a record. */
  refuseKey(why: "missing" | "malformed" | "empty"): Reply | null;
  /** What a key is unique in. */
  scope(request: Request): string;
  fingerprint(request: Request): string;
  /** Awaited between looking a key up and reserving it. */
  betweenLookAndReserve(lookUps: LookUps, key: string): Promise<void>;
  /** Whether the record of another tenant is another record, where scopes do not tell. */
  isOtherTenants(entry: { readonly tenant: string }, request: Request): boolean;
  misuse(entry: { readonly reply: Reply | null }): Reply;
  /** Called after a misuse. */
  afterMisuse(entries: Map<string, Entry>, scope: string, request: Request): void;
  inProgress(): Reply;
  /** What is kept when the handler has answered; null: the key is free again. */
  keep(reply: Reply, request: Request, lookUps: number): Reply | null | "running";
  replay(kept: Reply): Reply | Promise<Reply>;
  /** Of the server, not of the handler: on every answer, replays too. */
  decorate(reply: Reply, request: Request): Reply;
  /** Whether a key is reserved before the body has arrived. */
  readonly reservesEarly: boolean;
  /** Whether an effect stays although its handler answers 5xx. */
  readonly failsAfterEffect: boolean;
  /** Whether the connection is closed instead of answering a key that is malformed. */
  readonly hangsUpOnMalformed: boolean;
  /** Whether the handler's answer is cut in two, with a pause before its body. */
  readonly answersSlowly: boolean;
}

/** How many requests have looked a key up. */
export interface LookUps {
  of(key: string): number;
  /** Resolves when a second one has; gives up after some turns of the event loop. */
  second(key: string): Promise<void>;
}

export function problem(status: number, headers: Readonly<Record<string, string>> = {}): Reply {
  return {
    status,
    headers: { "content-type": "application/problem+json", ...headers },
    body: JSON.stringify({ status }),
  };
}

/** Right by the profiles ietf and ucp, where misuse is answered as given. */
export function rightBehaviour(misuseStatus = 422): Behaviour {
  return {
    readKey(lines) {
      const [line] = lines;
      if (line === undefined) return { refused: "missing" };
      if (line === "") return { refused: "empty" };
      if (lines.length > 1) return { refused: "malformed" };
      const key = /^"([^"]*)"$/u.exec(line)?.[1] ?? line;
      return /^[\x21-\x7e]+$/u.test(key) && !key.includes('"') ? { key } : { refused: "malformed" };
    },
    refuseKey: () => problem(400),
    scope: ({ tenant, path, key }) => `${tenant} ${path} ${key}`,
    fingerprint: ({ body }) => JSON.stringify(JSON.parse(body)),
    betweenLookAndReserve: async () => {},
    isOtherTenants: () => false,
    misuse: () => problem(misuseStatus),
    afterMisuse() {},
    inProgress: () => problem(409, { "retry-after": "1" }),
    keep: (reply) => (reply.status >= 500 ? null : reply),
    replay: (kept) => ({ ...kept, headers: { ...kept.headers, "idempotent-replayed": "true" } }),
    decorate: (reply) => ({ ...reply, headers: { ...reply.headers, "set-cookie": `visit=${randomUUID()}` } }),
    reservesEarly: false,
    failsAfterEffect: false,
    hangsUpOnMalformed: false,
    answersSlowly: false,
  };
}

export interface TestServer extends Listening {
  /** How many requests have come. */
  requests(): number;
}

/** Routes: POST anything; GET /effects answers how many effects there were. */
export async function serve(behaviour: Behaviour): Promise<TestServer> {
  const entries = new Map<string, Entry>();
  const lookUps = countLookUps();
  let effects = 0;
  let requests = 0;

  async function handle(request: Request): Promise<Reply> {
    // A handler takes a while, so that requests at the same moment meet it while it runs.
    await lookUps.second(request.key);
    const fails = request.body.includes('"fail":true');
    if (!fails || behaviour.failsAfterEffect) effects += 1;
    const id = randomUUID();
    const headers = { "content-type": "application/json" };
    if (fails) return { status: 500, headers, body: JSON.stringify({ failure: id }) };
    const body = JSON.stringify({ id, got: JSON.parse(request.body) });
    return { status: 201, headers: { ...headers, location: `${request.path}/${id}`, etag: `"${id}"` }, body };
  }

  async function submit(request: Request): Promise<Reply> {
    lookUps.add(request.key);
    const scope = behaviour.scope(request);
    const before = entries.get(scope);
    if (before !== undefined && !behaviour.isOtherTenants(before, request)) {
      if (before.fingerprint !== behaviour.fingerprint(request) && before.fingerprint !== early) {
        const refused = behaviour.misuse(before);
        behaviour.afterMisuse(entries, scope, request);
        return refused;
      }
      if (before.reply === null && before.fingerprint !== early) return behaviour.inProgress();
      if (before.reply !== null) return behaviour.replay(before.reply);
    }
    await behaviour.betweenLookAndReserve(lookUps, request.key);
    const { tenant } = request;
    const entry: Entry = { fingerprint: behaviour.fingerprint(request), tenant, reply: null };
    entries.set(scope, entry);
    const reply = await handle(request);
    const kept = behaviour.keep(reply, request, lookUps.of(request.key));
    if (kept === null) entries.delete(scope);
    else if (kept !== "running") entry.reply = kept;
    return reply;
  }

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    requests += 1;
    const path = new URL(incoming.url ?? "/", "http://any").pathname;
    if (path === "/effects") {
      outgoing.setHeader("content-type", "application/json").end(JSON.stringify({ effects }));
      return;
    }
    const reading = behaviour.readKey(incoming.headersDistinct["idempotency-key"] ?? []);
    const tenant = incoming.headers.authorization ?? "nobody";
    let isGone = false;
    outgoing.once("close", () => {
      isGone = true;
    });
    const parts = { path, tenant, isGone: () => isGone };
    if ("key" in reading) {
      const scope = behaviour.scope({ ...parts, key: reading.key, body: "{}" });
      if (behaviour.reservesEarly && !entries.has(scope)) reserveEarly(incoming, entries, scope);
    }
    const body = (await buffer(incoming)).toString();
    if ("refused" in reading && reading.refused === "malformed" && behaviour.hangsUpOnMalformed) {
      incoming.socket.destroy();
      return;
    }
    const request = { ...parts, body, key: "key" in reading ? reading.key : "" };
    const refused = "refused" in reading ? behaviour.refuseKey(reading.refused) : null;
    const unkeyed = "refused" in reading && refused === null;
    const reply = refused ?? (unkeyed ? await handle(request) : await submit(request));
    await write(outgoing, behaviour.decorate(reply, request), behaviour.answersSlowly);
  }

  const listening = await listen((incoming, outgoing) => {
    answer(incoming, outgoing).catch(() => outgoing.destroy());
  });
  return { ...listening, requests: () => requests };
}

/** Of a record that was made before its body was known. */
const early = "early";

function reserveEarly(incoming: IncomingMessage, entries: Map<string, Entry>, scope: string): void {
  entries.set(scope, { fingerprint: early, tenant: "", reply: null });
  incoming.once("close", () => {
    const entry = entries.get(scope);
    // The request has not arrived whole, and nobody frees the key.
    if (!incoming.complete && entry?.fingerprint === early)
      entries.set(scope, { ...entry, fingerprint: "{}" });
  });
}

async function write(
  outgoing: ServerResponse,
  { status, headers, body }: Reply,
  slowly: boolean,
): Promise<void> {
  outgoing.writeHead(status, headers);
  if (slowly) {
    outgoing.flushHeaders();
    for (let turns = 0; turns < 50; turns++) await turn();
  }
  outgoing.end(body);
}

function countLookUps() {
  const counts = new Map<string, number>();
  const of = (key: string) => counts.get(key) ?? 0;
  return {
    of,
    add: (key: string) => counts.set(key, of(key) + 1),
    async second(key: string) {
      for (let turns = 0; turns < 200 && of(key) < 2; turns++) await turn();
    },
  };
}
