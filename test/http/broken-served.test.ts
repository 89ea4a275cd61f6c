/** The cases for served operations, against adapters that are wrong in one thing each: the suite must notice. */
import { type App, type Broken, dropHeader, expectNoticed, rewriteHeader } from "./broken.ts";

type Execute = App["latchkey"]["executeOwned"];
type Submission = Parameters<Execute>[1];

/** An adapter that asks something else of Latchkey, or makes something else of the reply. */
function executing(wrong: (execute: Execute) => Execute): (app: App) => App {
  return (app) => {
    const { latchkey } = app;
    return { ...app, latchkey: { ...latchkey, executeOwned: wrong(latchkey.executeOwned) } };
  };
}

function submitting(wrong: (submission: Submission) => Submission): (app: App) => App {
  return executing(
    (execute) => (operation, submission, input) => execute(operation, wrong(submission), input),
  );
}

function mapping(wrong: (route: NonNullable<App["served"]>) => NonNullable<App["served"]>["toInput"]) {
  return (app: App): App =>
    app.served === undefined ? app : { ...app, served: { ...app.served, toInput: wrong(app.served) } };
}

function without(setting: "bodyLimitBytes" | "requestAge" | "storedHeaders"): (app: App) => App {
  return (app) => {
    const { [setting]: _, ...settings } = app.settings;
    return { ...app, settings };
  };
}

/** A key of its own for each request. */
let requests = 0;
const forgetful = submitting((submission) => {
  requests += 1;
  return { ...submission, key: { ...submission.key, key: `${submission.key.key}-${requests}` } };
});

/** Keeps the first reply for a key. */
const remembering = () => {
  const answers = new Map<string, ReturnType<Execute>>();
  return executing((execute) => (operation, submission, input) => {
    const { key } = submission.key;
    const result = answers.get(key) ?? execute(operation, submission, input);
    answers.set(key, result);
    return result;
  });
};

expectNoticed([
  ...["nothing", "204", "the JSON value null", "JSON with characters", "all byte values", "a refusal"].map(
    (failing): Broken => ({
      what: `has no replay marker (${failing})`,
      failing: `served: ${failing}`,
      response: (res) => dropHeader(res, "idempotent-replayed"),
    }),
  ),
  {
    what: "sends every body as text",
    failing: "served: all byte values",
    response: (res) => {
      const { end } = res;
      res.end = ((chunk: Buffer | undefined) =>
        end.call(res, chunk === undefined ? "" : chunk.toString("utf8"), "utf8")) as typeof end;
      dropHeader(res, "content-length");
    },
  },
  {
    what: "replays a redirect without Location",
    failing: "served: a redirect",
    response: (res) => {
      const { setHeader } = res;
      res.setHeader = (name, value) => {
        if (name === "Idempotent-Replayed") res.removeHeader("Location");
        return setHeader.call(res, name, value);
      };
    },
  },
  {
    what: "does not pass the body to the operation",
    failing: "served: the operation gets",
    app: mapping(
      ({ toInput }) =>
        () =>
          toInput(async () => Buffer.from("{}")),
    ),
  },
  {
    what: "handles errors of the route itself",
    failing: "served: if a route throws",
    app: mapping(
      ({ toInput }) =>
        (readBody) =>
          toInput(readBody).catch(() => ({ sent: "" })),
    ),
  },
  {
    what: "converts any input of the route to JSON",
    failing: "served: if a route makes an input",
    app: mapping(({ toInput }) => async (readBody) => ({ sent: String((await toInput(readBody)).sent) })),
  },
  {
    what: "replays cookies",
    failing: "served: the first caller gets every header",
    response: (res) => {
      const { setHeader } = res;
      res.setHeader = (name, value) => {
        if (name === "Idempotent-Replayed") setHeader.call(res, "Set-Cookie", "a=1");
        return setHeader.call(res, name, value);
      };
    },
  },
  {
    what: "ignores `storedHeaders`",
    failing: "served: the first caller gets every header",
    app: without("storedHeaders"),
  },
  {
    what: "joins the lines of one header",
    failing: "served: the first caller gets every header",
    response: rewriteHeader("set-cookie", (value) => (Array.isArray(value) ? value.join(", ") : value)),
  },
  {
    what: "drops the headers of an answer without a body",
    failing: "served: HEAD",
    response: (res) => dropHeader(res, "etag"),
  },
  {
    what: "does not report that an answer was not stored",
    failing: "served: an answer too large",
    response: (res) => dropHeader(res, "idempotency-status"),
  },
  ...["writes and answer", "a key with another body", "finished steps", "an unknown outcome"].map(
    (failing): Broken => ({
      what: `treats every request as new (${failing})`,
      failing: `served: ${failing}`,
      app: forgetful,
    }),
  ),
  ...["if the work throws", "a 429", "a store that is down", "two tenants", "a stored answer says"].map(
    (failing): Broken => ({
      what: `repeats its first answer, whatever it was (${failing})`,
      failing: `served: ${failing}`,
      app: (app) => remembering()(app),
    }),
  ),
  {
    what: "sends Idempotency-Expires with answers that cannot be replayed",
    failing: "served: without a key",
    response: (res) => res.setHeader("Idempotency-Expires", "Sun, 06 Nov 1994 08:49:37 GMT"),
  },
  {
    what: "accepts bodies of any size",
    failing: "served: a body over the limit",
    app: without("bodyLimitBytes"),
  },
  {
    what: "accepts any operation for a route",
    failing: "served: an operation without `run`",
    listener: () => (_req, res) => res.end(),
  },
  {
    what: "accepts any operation for a handler",
    failing: "served: an operation that owns its work is rejected",
    listener: () => (_req, res) => res.end(),
  },
  {
    what: "allows caches to store a problem",
    failing: "served: a missing key",
    response: rewriteHeader("cache-control", () => "max-age=60"),
  },
  {
    what: "puts requests without a tenant under a common one",
    failing: "served: a missing key",
    app: (app) => ({ ...app, tenant: (header) => header("x-tenant") || "everybody" }),
  },
  {
    what: "ignores the principal",
    failing: "served: a key with another body, or of another principal",
    app: submitting((submission) => ({ ...submission, principal: null })),
  },
  {
    what: "ignores the tenant",
    failing: "served: two tenants",
    app: submitting((submission) => ({ ...submission, key: { ...submission.key, tenant: "everybody" } })),
  },
  {
    what: "answers a conflict without Retry-After",
    failing: "served: a duplicate of a running",
    response: (res) => dropHeader(res, "retry-after"),
  },
  {
    what: "answers a tenant over its limit without Retry-After",
    failing: "served: a tenant over its limit",
    response: (res) => dropHeader(res, "retry-after"),
  },
  {
    what: "treats an unknown outcome as a running request",
    failing: "served: an unknown outcome",
    app: executing((execute) => async (operation, submission, input) => {
      const result = await execute(operation, submission, input);
      return result.kind === "unknown" ? { ...result, kind: "in_progress", retryAfterMs: 1_000 } : result;
    }),
  },
  {
    what: "sends Idempotency-Expires only with the first answer",
    failing: "served: a stored answer says",
    response: (res) => {
      const { setHeader } = res;
      res.setHeader = (name, value) =>
        name === "Idempotency-Expires" && res.hasHeader("Idempotent-Replayed")
          ? res
          : setHeader.call(res, name, value);
    },
  },
  {
    what: "ignores the maximum age of a request",
    failing: "served: a request that was first sent",
    app: without("requestAge"),
  },
  {
    what: "leaves a store that is down to the framework's error handling",
    failing: "served: a store that is down",
    app: executing(
      (execute) => (operation, submission, input) =>
        execute(operation, submission, input).catch((error: Error) => {
          throw new Error(error.message);
        }),
    ),
  },
  {
    what: "answers before the answer is stored",
    failing: "served: no byte is sent",
    app: executing((execute) => async (operation, submission, input) => {
      const answer = { status: 201, headers: [], body: new Uint8Array(0), omitted: null };
      void execute(operation, submission, input);
      return { kind: "executed", recordId: "1", answer, stored: true, expiresAt: null };
    }),
  },
]);
