/** The HTTP suite against adapters that are wrong in one thing each: the suite must notice. */
import type { IncomingMessage, RequestListener } from "node:http";
import type { Execution } from "../../packages/latchkey/src/engine/classify.ts";
import type { Attempt } from "../../packages/latchkey/src/operations/attempt.ts";
import { recordedListener } from "../registry/frameworks/express/suite.ts";
import {
  type App,
  type Broken,
  dropHeader,
  expectNoticed,
  rewriteHeader,
  rewriteRawHeaders,
} from "./broken.ts";

const key = (req: IncomingMessage) => String(req.headers["idempotency-key"]);

const brokenOnes: readonly Broken[] = [
  {
    what: "has no replay marker",
    failing: "answers: text",
    response: (res) => {
      const set = res.setHeader;
      res.setHeader = (name, value) => (name === "Idempotent-Replayed" ? res : set.call(res, name, value));
    },
  },
  {
    what: "marks first answers as replays",
    failing: "answers: text",
    response: (res) => void res.setHeader("Idempotent-Replayed", "true"),
    app: (app) => ({ ...app, settings: { ...app.settings, replayHeader: "X-Other" } }),
  },
  {
    what: "sends only the first line of a header with several",
    failing: "answers: the first caller gets every header",
    response: rewriteHeader("link", (value) => (Array.isArray(value) ? value[0] : value)),
  },
  {
    what: "joins cookies into one line",
    failing: "answers: the first caller gets every header",
    response: rewriteHeader("set-cookie", (value) => (Array.isArray(value) ? value.join(", ") : value)),
  },
  {
    what: "treats bodies as text",
    failing: "answers: all byte values",
    response: (res) => {
      const end = res.end;
      res.end = ((chunk: Buffer | undefined) =>
        end.call(res, chunk === undefined ? "" : chunk.toString("utf8"), "utf8")) as typeof res.end;
      const set = res.setHeader;
      res.setHeader = (name, value) => (name === "Content-Length" ? res : set.call(res, name, value));
    },
  },
  {
    what: "uses the first of repeated keys",
    failing: "keys: a repeated header",
    request: rewriteRawHeaders((lines) => lines.slice(0, 1)),
  },
  {
    what: "joins repeated keys as Node does",
    failing: "keys: a repeated header",
    request: rewriteRawHeaders((lines) => [lines.join(", ")]),
  },
  {
    what: "treats an empty key as a missing one",
    failing: "keys: one that is empty is refused",
    request: rewriteRawHeaders((lines) => lines.filter((line) => line !== "")),
  },
  {
    what: "puts requests without a tenant under a common one",
    failing: "refusals: a missing tenant",
    app: (app) => ({ ...app, tenant: (header) => header("x-tenant") || "everybody" }),
  },
  {
    what: "ignores the tenant",
    failing: "refusals: two tenants",
    app: (app) => ({ ...app, tenant: () => "everybody" }),
  },
  {
    what: "ignores the principal",
    failing: "refusals: another principal",
    app: (app) => ({ ...app, principal: () => null }),
  },
  {
    what: "reveals the record to another principal",
    failing: "refusals: another principal cannot tell",
    app: (app) => {
      const { latchkey } = app;
      const execute: typeof latchkey.execute = async (operation, submission, work) => {
        const result = await latchkey.execute(operation, submission, work);
        return result.kind === "key_misuse" && result.because === "principal"
          ? { kind: "in_progress", recordId: "secret", retryAfterMs: 1_000 }
          : result;
      };
      return { ...app, latchkey: { ...latchkey, execute } };
    },
  },
  {
    what: "ignores the query",
    failing: "requests: with and without a query",
    request: (req) => {
      req.url = req.url?.split("?")[0] ?? "";
    },
  },
  {
    what: "answers a conflict without Retry-After",
    failing: "refusals: a duplicate of a running request",
    response: (res) => {
      const set = res.setHeader;
      res.setHeader = (name, value) => (name === "Retry-After" ? res : set.call(res, name, value));
    },
  },
  {
    what: "runs the handler while the store is down",
    failing: "refusals: a store that is down",
    app: (app) => {
      const { latchkey } = app;
      const execute: typeof latchkey.execute = async (operation, submission, work) => {
        try {
          return await latchkey.execute(operation, submission, work);
        } catch {
          const answer = await work({ attempt: { id: "1" }, tx: {} } as never);
          return { kind: "executed", recordId: "1", answer, stored: false, expiresAt: null };
        }
      };
      return { ...app, latchkey: { ...latchkey, execute } };
    },
  },
  {
    what: "allows caches to store a problem",
    failing: "keys: a missing key",
    response: rewriteHeader("cache-control", () => "max-age=60"),
  },
  {
    what: "ends the handler when the client disconnects",
    failing: "answers: if the client disconnects",
    app: (app) => (app.route.execution === "lease" ? { ...app, route: abandonOnHangUp(app.route) } : app),
    request: (req) => {
      const { "idempotency-key": hungUp } = req.headers;
      req.socket.once("close", () => hangUps.add(String(hungUp)));
    },
  },
  {
    what: "answers every success with 200",
    failing: "answers: a redirect",
    response: (res) => {
      const { writeHead } = res;
      res.writeHead = ((status: number, ...rest: never[]) =>
        writeHead.call(res, status < 400 ? 200 : status, ...rest)) as typeof writeHead;
    },
  },
  {
    what: "loses the last byte",
    failing: "answers: a compressed body",
    response: (res) => {
      const { end } = res;
      res.end = ((chunk: Buffer | undefined) =>
        end.call(res, chunk === undefined ? "" : chunk.subarray(0, -1), "utf8")) as typeof end;
      dropHeader(res, "content-length");
    },
  },
  {
    what: "sends the first caller only the part that is stored",
    failing: "answers: one of 20 MB",
    response: (res) => {
      const { end } = res;
      res.end = ((chunk: Buffer | undefined) =>
        end.call(res, chunk === undefined ? "" : chunk.subarray(0, 1024 * 1024), "utf8")) as typeof end;
      dropHeader(res, "content-length");
    },
  },
  {
    what: "replays cookies",
    failing: "answers: the first caller gets every header",
    response: (res) => {
      const { setHeader } = res;
      res.setHeader = (name, value) => {
        if (name === "Idempotent-Replayed") setHeader.call(res, "Set-Cookie", "a=1");
        return setHeader.call(res, name, value);
      };
    },
  },
  {
    what: "does not store the headers that belong to an answer",
    failing: "answers: HEAD",
    response: (res) => dropHeader(res, "etag"),
  },
  {
    what: "also runs the handler for a replay",
    failing: "answers: text",
    app: (app) => {
      const { latchkey, route } = app;
      const execute: typeof latchkey.execute = async (operation, submission, work) => {
        const result = await latchkey.execute(operation, submission, work);
        if (result.kind === "replay") await route.handle(async () => Buffer.alloc(0), {} as never);
        return result;
      };
      return { ...app, latchkey: { ...latchkey, execute } };
    },
  },
  {
    what: "keeps headers that a failed run has set",
    failing: "failures: headers and status that a failed run set",
    response: (res) => {
      const { appendHeader, end } = res;
      const left: [string, string][] = [];
      res.appendHeader = (name, value) => {
        left.push([name, String(value)]);
        return appendHeader.call(res, name, value);
      };
      res.setHeader = ((set) => (name: string, value: never) => {
        if (name === "X-Run") left.push([name, value]);
        return set.call(res, name, value);
      })(res.setHeader);
      res.end = ((chunk: Buffer) => {
        for (const [name, value] of left) appendHeader.call(res, name, value);
        return end.call(res, chunk, "utf8");
      }) as typeof end;
    },
  },
  {
    what: "reads bodies as text",
    failing: "requests: the handler reads the body as it was sent",
    app: (app) => {
      const { handle } = app.route;
      const asText = (readBody: () => Promise<Uint8Array>, context: never) =>
        handle(async () => Buffer.from(Buffer.from(await readBody()).toString("utf8")), context);
      return { ...app, route: { ...app.route, handle: asText } as App["route"] };
    },
  },
  {
    what: "accepts bodies of any size",
    failing: "requests: a body over the limit",
    app: (app) => ({ ...app, settings: { ...app.settings, bodyLimitBytes: 20 * 1024 * 1024 } }),
  },
  {
    what: "sends Idempotency-Expires only with the first answer",
    failing: "options: a stored answer says how long",
    response: (res) => {
      const { setHeader } = res;
      res.setHeader = (name, value) =>
        name === "Idempotency-Expires" && res.hasHeader("Idempotent-Replayed")
          ? res
          : setHeader.call(res, name, value);
    },
  },
  {
    what: "sends Idempotency-Expires with answers that are not stored",
    failing: "options: a stored answer says how long",
    response: (res) => res.setHeader("Idempotency-Expires", "Sun, 06 Nov 1994 08:49:37 GMT"),
  },
  {
    what: "sends another Idempotency-Expires with every replay",
    failing: "options: a stored answer says how long",
    response: rewriteHeader("idempotency-expires", () => new Date(expiries++ * 1_000).toUTCString()),
  },
  {
    what: "applies the methods of a mount to a route",
    failing: "options: `methods` applies to a mounted adapter",
    listener: (app) => recordedListener(app),
  },
  {
    what: "is a mount and does not report that it ignored a key",
    failing: "options: `methods` applies to a mounted adapter",
    mounts: true,
    listener: (app) => recordedListener(app),
    response: (res) => dropHeader(res, "idempotency-status"),
  },
  {
    what: "is a mount and reports an ignored key for requests without one",
    failing: "options: `methods` applies to a mounted adapter",
    mounts: true,
    listener: (app) => recordedListener(app),
    response: (res) => void res.setHeader("Idempotency-Status", "ignored"),
  },
  {
    what: "is a mount and protects every method",
    failing: "options: `methods` applies to a mounted adapter",
    mounts: true,
    listener: ({ settings: { methods: _, ...settings }, ...app }) => recordedListener({ ...app, settings }),
  },
  {
    what: "does not send Stripe-Should-Retry",
    failing: "options: a 409 says in a header",
    response: (res) => dropHeader(res, "stripe-should-retry"),
  },
  ...(
    [
      ["the rules for keys", "options: a key that is", "key"],
      ["the maximum age of a request", "options: a request that was first sent", "requestAge"],
    ] as const
  ).map(
    ([what, failing, option]): Broken => ({
      what: `ignores ${what}`,
      failing,
      app: (app) => {
        const { [option]: _, ...settings } = app.settings;
        return { ...app, settings };
      },
    }),
  ),
  {
    what: "answers a tenant over its limit without Retry-After",
    failing: "options: a tenant over its limit",
    response: (res) => dropHeader(res, "retry-after"),
  },
  {
    what: "sends the answer before it is stored",
    failing: "answers: no byte is sent",
    listener: sendEarly,
  },
  ...[
    "answers: the first caller gets",
    "keys: a missing key",
    "refusals: a key with another body",
    "refusals: two tenants",
  ].map(
    (failing): Broken => ({
      what: `is a cache in front of the handler (${failing})`,
      failing,
      listener: cacheInFront,
    }),
  ),
];

const hangUps = new Set<string>();
let expiries = 0;

function abandonOnHangUp(route: Extract<App["route"], { execution: "lease" }>): App["route"] {
  return {
    ...route,
    handle: async (readBody: () => Promise<Uint8Array>, context: { attempt: Attempt }) => {
      const before = hangUps.size;
      const answer = await route.handle(readBody, context);
      const { body } = answer;
      if (body === undefined || typeof body === "string" || body instanceof Uint8Array) return answer;
      async function* untilHangUp(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
        for await (const chunk of chunks) {
          if (hangUps.size > before) return;
          yield chunk;
        }
      }
      return { ...answer, body: untilHangUp(body) };
    },
  };
}

/** Keeps to the protocol, and writes to the socket while it is at it. */
function sendEarly({ latchkey, route }: App): RequestListener {
  return async (req, res) => {
    const submission = {
      key: { tenant: "t", scope: route.operation.name, key: key(req) },
      fingerprint: { version: 1, digest: new Uint8Array(32) },
      principal: null,
    };
    await latchkey.execute<Execution>(route.operation, submission, async (context) => {
      const answer = await route.handle(async () => new Uint8Array(0), context as never);
      res.writeHead(answer.status).end("one two three");
      return { status: answer.status, headers: [], body: new Uint8Array(0), omitted: null };
    });
  };
}

/** What most idempotency libraries are. */
function cacheInFront(app: App): RequestListener {
  const answers = new Map<string, { status: number; body: Buffer }>();
  return async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk);
    const cached = answers.get(key(req));
    if (cached !== undefined) {
      res.writeHead(cached.status, { "Idempotent-Replayed": "true" }).end(cached.body);
      return;
    }
    const attempt = { id: "1", release() {}, retain() {} };
    const answer = await app.route.handle(async () => Buffer.concat(chunks), { attempt, tx: {} } as never);
    const parts: Buffer[] = [];
    const body = typeof answer.body === "string" ? [Buffer.from(answer.body)] : (answer.body ?? []);
    res.writeHead(answer.status);
    for await (const part of body instanceof Uint8Array ? [body] : body) {
      parts.push(Buffer.from(part as Uint8Array));
      res.write(part);
    }
    res.end();
    answers.set(key(req), { status: answer.status, body: Buffer.concat(parts) });
  };
}

expectNoticed(brokenOnes);
