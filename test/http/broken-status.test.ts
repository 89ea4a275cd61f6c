/** The cases for deferred requests and their status resource, against adapters that are wrong in one thing each. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type App, type Broken, dropHeader, expectNoticed, rewriteHeader } from "./broken.ts";

type Runtime = App["latchkey"]["runtime"];
type Execute = App["latchkey"]["executeOwned"];

/** An adapter whose status resource reads something else. */
function reading(wrong: (runtime: Runtime) => Partial<Runtime["store"]>): (app: App) => App {
  return (app) => {
    const { latchkey } = app;
    const { runtime } = latchkey;
    const store = { ...runtime.store, ...wrong(runtime) };
    return { ...app, latchkey: { ...latchkey, runtime: { ...runtime, store } } };
  };
}

/** An adapter that makes something else of the record it has read. */
function seeing(wrong: (record: Seen) => Seen | null): (app: App) => App {
  return reading(({ store }) => ({
    async readById(tenant, id) {
      const { record, now } = await store.readById(tenant, id);
      return { record: record === null ? null : wrong(record), now };
    },
  }));
}

type Seen = NonNullable<Awaited<ReturnType<Runtime["store"]["readById"]>>["record"]>;

/** Rewrites the JSON of answers to these methods. */
function rewriteBody(rewrite: (body: Record<string, unknown>) => object, method = "GET") {
  return (res: ServerResponse) => {
    if (res.req.method !== method) return;
    const { end } = res;
    res.end = ((chunk?: Buffer | string) => {
      const text = chunk === undefined ? "" : chunk.toString();
      const json = text.startsWith("{") ? JSON.stringify(rewrite(JSON.parse(text))) : text;
      res.removeHeader("Content-Length");
      return end.call(res, json, "utf8");
    }) as typeof end;
  };
}

/** Answers to the status resource alone. */
function ofStatus(wrong: (res: ServerResponse) => void): (res: ServerResponse) => void {
  return (res) => {
    if (res.req.method === "GET") wrong(res);
  };
}

function sayingAs(header: string, value: string): (req: IncomingMessage) => void {
  return (req) => {
    if (req.method === "GET") req.headers[header] = value;
  };
}

/** Hears something else of a request that was accepted. */
function accepting(wrong: (execute: Execute) => Execute): (app: App) => App {
  return (app) => {
    const { latchkey } = app;
    return { ...app, latchkey: { ...latchkey, executeOwned: wrong(latchkey.executeOwned) } };
  };
}

let requests = 0;
/** Whether what the status resource has read last is finished. */
let hasAnswer = false;

expectNoticed([
  ...["location", "retry-after", "content-type", "cache-control"].map(
    (header): Broken => ({
      what: `accepts without ${header}`,
      failing: "accepted: a deferred request",
      response: (res) => dropHeader(res, header),
    }),
  ),
  {
    what: "gives the address of something else",
    failing: "accepted: a deferred request",
    response: rewriteHeader("location", (value) => String(value).replace("/operations", "")),
  },
  {
    what: "marks what is accepted as a replay",
    failing: "accepted: a deferred request",
    response: (res) => void res.setHeader("Idempotent-Replayed", "true"),
  },
  {
    what: "accepts and names no operation",
    failing: "accepted: a deferred request",
    response: rewriteBody(({ status }) => ({ status }), "POST"),
  },
  ...["accepted: a repeated request", "accepted: while it runs", "accepted: a key with another body"].map(
    (failing): Broken => ({
      what: `accepts every request as a new one (${failing})`,
      failing,
      app: accepting((execute) => (operation, submission, input) => {
        requests += 1;
        const key = { ...submission.key, key: `${submission.key.key}-${requests}` };
        return execute(operation, { ...submission, key }, input);
      }),
    }),
  ),
  {
    what: "waits for its worker",
    failing: "accepted: a deferred request",
    app: accepting((execute) => async (operation, submission, input) => {
      const result = await execute(operation, submission, input);
      return result.kind === "accepted" ? { ...result, kind: "in_progress" } : result;
    }),
  },
  {
    what: "leaves a store that is down to the framework's error handling",
    failing: "accepted: a request that is refused",
    app: accepting(
      (execute) => (operation, submission, input) =>
        execute(operation, submission, input).catch((error: Error) => {
          throw new Error(error.message);
        }),
    ),
  },
  ...["accepted: a duplicate of a running request is sent", "accepted: a duplicate of a running owned"].map(
    (failing): Broken => ({
      what: `forgets what a duplicate should get (${failing})`,
      failing,
      app: (app) => {
        const { inProgress: _, ...settings } = app.settings;
        return { ...app, settings };
      },
    }),
  ),
  ...["accepted: a duplicate of a running request is sent", "accepted: a duplicate of a running owned"].map(
    (failing): Broken => ({
      what: `begins lives that nobody finds by their ids (${failing})`,
      failing,
      app: (app) => {
        const { latchkey } = app;
        const execute: typeof latchkey.execute = (operation, submission, work) =>
          latchkey.execute(operation, { ...submission, addressable: false }, work);
        const executeOwned: Execute = (operation, submission, input) =>
          latchkey.executeOwned(operation, { ...submission, addressable: false }, input);
        return { ...app, latchkey: { ...latchkey, execute, executeOwned } };
      },
    }),
  ),
  {
    what: "answers 409 where 429 is wanted",
    failing: "accepted: a duplicate of a running request is answered with 429",
    app: ({ settings: { inProgress: _, ...settings }, ...app }) => ({ ...app, settings }),
  },
  {
    what: "sends clients to a status that will not come",
    failing: "accepted: only a request resumes",
    app: (app) => {
      const { latchkey } = app;
      const { runtime } = latchkey;
      return { ...app, latchkey: { ...latchkey, runtime: { ...runtime, operations: new Map() } } };
    },
  },
  {
    what: "makes routes of whatever it is given",
    failing: "accepted: a route that would answer 202",
    listener: () => (_req, res) => res.end(),
  },
  {
    what: "shows a status to every tenant",
    failing: "status: for every other tenant",
    request: sayingAs("x-tenant", "tenant-1"),
  },
  {
    what: "shows a status to every principal",
    failing: "status: for every other tenant",
    request: sayingAs("x-principal", "ada"),
  },
  {
    what: "says that there is an operation of somebody else's",
    failing: "status: for every other tenant",
    response: rewriteBody((body) =>
      body.code === "not-found" ? { ...body, detail: `Not yours, at ${requests++}` } : body,
    ),
  },
  ...["status: pending", "status: for every other", "status: HEAD"].map(
    (failing): Broken => ({
      what: `lets a status be cached (${failing})`,
      failing,
      response: rewriteHeader("cache-control", () => "max-age=60"),
    }),
  ),
  {
    what: "lets the answer say whether its status is cached",
    failing: "status: pending",
    response: ofStatus(rewriteHeader("cache-control", (value) => (hasAnswer ? "public, max-age=60" : value))),
    app: seeing((record) => {
      hasAnswer = record.state === "completed";
      return record;
    }),
  },
  {
    what: "never says that the work runs",
    failing: "status: pending",
    response: rewriteBody((body) => (body.status === "running" ? { ...body, status: "pending" } : body)),
  },
  {
    what: "has no replay marker on a status",
    failing: "status: pending",
    response: ofStatus((res) => dropHeader(res, "idempotent-replayed")),
  },
  {
    what: "writes the answer in another way than the request's replay",
    failing: "status: pending",
    response: rewriteBody((body) => ("sent" in body ? { result: body } : body)),
  },
  ...["etag", "location", "x-report", "idempotency-expires"].map(
    (header): Broken => ({
      what: `loses ${header} of the answer`,
      failing: "status: pending",
      response: (res) => {
        const { setHeader } = res;
        res.setHeader = (name, value) =>
          hasAnswer && res.req.method === "GET" && name.toLowerCase() === header
            ? res
            : setHeader.call(res, name, value);
      },
      app: seeing((record) => {
        hasAnswer = record.state === "completed";
        return record;
      }),
    }),
  ),
  {
    what: "shows cookies of the answer",
    failing: "status: pending",
    response: ofStatus((res) => void res.setHeader("Set-Cookie", "a=1")),
  },
  {
    what: "asks the store for whatever it is given",
    failing: "status: a malformed id",
    request: (req) => {
      const { url = "" } = req;
      if (req.method === "GET") req.url = url.replace(/[^/]*$/u, "01890000-0000-7000-8000-000000000000");
    },
  },
  {
    what: "leaves a store that is down to the framework",
    failing: "status: a malformed id",
    app: reading(({ store }) => ({
      readById: (tenant, id) =>
        store.readById(tenant, id).catch((error: Error) => {
          throw new Error(error.message);
        }),
    })),
  },
  {
    what: "knows nothing when it is asked by HEAD",
    failing: "status: HEAD",
    request: (req) => {
      if (req.method === "HEAD") req.url = "/operations/01890000-0000-7000-8000-000000000000";
    },
  },
  {
    what: "forgets the headers of an answer without body",
    failing: "status: HEAD",
    response: (res) => dropHeader(res, "etag"),
  },
  {
    what: "does not say that an answer was not kept",
    failing: "status: an answer too large",
    response: (res) => dropHeader(res, "idempotency-status"),
  },
  {
    what: "waits for work that nobody starts any more",
    failing: "status: work that no worker started",
    app: seeing((record) => (record.state === "pending" ? { ...record, expiresAt: Infinity } : record)),
  },
  {
    what: "has no word for what was never started",
    failing: "status: work that no worker started",
    app: seeing((record) => (record.state === "failed" ? null : record)),
  },
  {
    what: "takes work that goes on for lost",
    failing: "status: work that failed early",
    app: seeing((record) => (record.state === "retryable" ? null : record)),
  },
  {
    what: "takes a failure for no answer",
    failing: "status: work that has failed for good",
    app: seeing((record) => (record.state === "failed" ? null : record)),
  },
  {
    what: "takes an unknown outcome for work that goes on",
    failing: "status: an unknown outcome",
    app: seeing((record) =>
      record.state === "unknown" ? { ...record, state: "retryable", lastErrorCode: null } : record,
    ),
  },
  {
    what: "keeps answers for ever",
    failing: "status: an answer is gone",
    app: seeing((record) =>
      record.state === "completed" ? { ...record, expiresAt: Infinity, forgetAt: Infinity } : record,
    ),
  },
  {
    what: "forgets nothing",
    failing: "status: an answer is gone",
    app: seeing((record) => ("forgetAt" in record ? { ...record, forgetAt: Infinity } : record)),
  },
  {
    what: "counts no look-ups of a status",
    failing: "status: a tenant over its limit",
    app: (app) => {
      const { latchkey } = app;
      const runtime = { ...latchkey.runtime, limits: {} };
      return { ...app, latchkey: { ...latchkey, runtime } };
    },
  },
  {
    what: "says nothing of when to come back",
    failing: "status: a tenant over its limit",
    response: (res) => dropHeader(res, "retry-after"),
  },
  {
    what: "gives requests without tenant a common one",
    failing: "status: without a tenant",
    app: (app) => ({ ...app, tenant: (header) => header("x-tenant") || "everybody" }),
  },
]);
