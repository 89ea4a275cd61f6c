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
    what: "sends the Location of another resource",
    failing: "accepted: a deferred request",
    response: rewriteHeader("location", (value) => String(value).replace("/operations", "")),
  },
  {
    what: "marks an accepted request as a replay",
    failing: "accepted: a deferred request",
    response: (res) => void res.setHeader("Idempotent-Replayed", "true"),
  },
  {
    what: "accepts without naming the operation",
    failing: "accepted: a deferred request",
    response: rewriteBody(({ status }) => ({ status }), "POST"),
  },
  ...["accepted: a repeated request", "accepted: while it runs", "accepted: a key with another body"].map(
    (failing): Broken => ({
      what: `treats every request as new (${failing})`,
      failing,
      app: accepting((execute) => (operation, submission, input) => {
        requests += 1;
        const key = { ...submission.key, key: `${submission.key.key}-${requests}` };
        return execute(operation, { ...submission, key }, input);
      }),
    }),
  ),
  {
    what: "answers 409 instead of 202",
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
      what: `ignores \`inProgress\` (${failing})`,
      failing,
      app: (app) => {
        const { inProgress: _, ...settings } = app.settings;
        return { ...app, settings };
      },
    }),
  ),
  ...["accepted: a duplicate of a running request is sent", "accepted: a duplicate of a running owned"].map(
    (failing): Broken => ({
      what: `stores records that cannot be found by id (${failing})`,
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
    what: "answers 409 instead of 429",
    failing: "accepted: a duplicate of a running request gets 429",
    app: ({ settings: { inProgress: _, ...settings }, ...app }) => ({ ...app, settings }),
  },
  {
    what: "sends clients to a status that will never change",
    failing: "accepted: only a request resumes",
    app: (app) => {
      const { latchkey } = app;
      const { runtime } = latchkey;
      return { ...app, latchkey: { ...latchkey, runtime: { ...runtime, operations: new Map() } } };
    },
  },
  {
    what: "accepts any settings for a route",
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
    what: "reveals that another caller's operation exists",
    failing: "status: for every other tenant",
    response: rewriteBody((body) =>
      body.code === "not-found" ? { ...body, detail: `Not yours, at ${requests++}` } : body,
    ),
  },
  ...["status: pending", "status: for every other", "status: HEAD"].map(
    (failing): Broken => ({
      what: `allows caches to store a status (${failing})`,
      failing,
      response: rewriteHeader("cache-control", () => "max-age=60"),
    }),
  ),
  {
    what: "sends the answer's Cache-Control with its status",
    failing: "status: pending",
    response: ofStatus(rewriteHeader("cache-control", (value) => (hasAnswer ? "public, max-age=60" : value))),
    app: seeing((record) => {
      hasAnswer = record.state === "completed";
      return record;
    }),
  },
  {
    what: "never reports that the work is running",
    failing: "status: pending",
    response: rewriteBody((body) => (body.status === "running" ? { ...body, status: "pending" } : body)),
  },
  {
    what: "has no replay marker on a status",
    failing: "status: pending",
    response: ofStatus((res) => dropHeader(res, "idempotent-replayed")),
  },
  {
    what: "sends another body than a replay of the request",
    failing: "status: pending",
    response: rewriteBody((body) => ("sent" in body ? { result: body } : body)),
  },
  ...["etag", "location", "x-report", "idempotency-expires"].map(
    (header): Broken => ({
      what: `drops ${header} of the answer`,
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
    what: "sends the answer's cookies",
    failing: "status: pending",
    response: ofStatus((res) => void res.setHeader("Set-Cookie", "a=1")),
  },
  {
    what: "looks up malformed ids in the store",
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
    what: "answers HEAD with 404",
    failing: "status: HEAD",
    request: (req) => {
      if (req.method === "HEAD") req.url = "/operations/01890000-0000-7000-8000-000000000000";
    },
  },
  {
    what: "drops the headers of an answer without a body",
    failing: "status: HEAD",
    response: (res) => dropHeader(res, "etag"),
  },
  {
    what: "does not report that an answer was not stored",
    failing: "status: an answer too large",
    response: (res) => dropHeader(res, "idempotency-status"),
  },
  {
    what: "reports work as pending that will not be started any more",
    failing: "status: work that no worker started",
    app: seeing((record) => (record.state === "pending" ? { ...record, expiresAt: Infinity } : record)),
  },
  {
    what: "answers 404 for work that was never started",
    failing: "status: work that no worker started",
    app: seeing((record) => (record.state === "failed" ? null : record)),
  },
  {
    what: "answers 404 for work that is retried",
    failing: "status: work that failed early",
    app: seeing((record) => (record.state === "retryable" ? null : record)),
  },
  {
    what: "answers 404 for work that has failed",
    failing: "status: work that has failed for good",
    app: seeing((record) => (record.state === "failed" ? null : record)),
  },
  {
    what: "treats an unknown outcome as work that is retried",
    failing: "status: an unknown outcome",
    app: seeing((record) =>
      record.state === "unknown" ? { ...record, state: "retryable", lastErrorCode: null } : record,
    ),
  },
  {
    what: "never expires answers",
    failing: "status: an answer is gone",
    app: seeing((record) =>
      record.state === "completed" ? { ...record, expiresAt: Infinity, forgetAt: Infinity } : record,
    ),
  },
  {
    what: "never forgets records",
    failing: "status: an answer is gone",
    app: seeing((record) => ("forgetAt" in record ? { ...record, forgetAt: Infinity } : record)),
  },
  {
    what: "does not limit look-ups of a status",
    failing: "status: a tenant over its limit",
    app: (app) => {
      const { latchkey } = app;
      const runtime = { ...latchkey.runtime, limits: {} };
      return { ...app, latchkey: { ...latchkey, runtime } };
    },
  },
  {
    what: "sends no Retry-After",
    failing: "status: a tenant over its limit",
    response: (res) => dropHeader(res, "retry-after"),
  },
  {
    what: "puts requests without a tenant under a common one",
    failing: "status: without a tenant",
    app: (app) => ({ ...app, tenant: (header) => header("x-tenant") || "everybody" }),
  },
]);
