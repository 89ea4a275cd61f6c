/** The cases for served operations, against adapters that are wrong in one thing each: the suite must notice. */
import { type App, type Broken, dropHeader, expectNoticed, rewriteHeader } from "./broken.ts";

type Execute = App["latchkey"]["executeOwned"];
type Submission = Parameters<Execute>[1];

/** An adapter that asks something else of Latchkey, or makes something else of what it hears. */
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

/** Keeps what it has once heard for a key. */
const remembering = () => {
  const heard = new Map<string, ReturnType<Execute>>();
  return executing((execute) => (operation, submission, input) => {
    const { key } = submission.key;
    const result = heard.get(key) ?? execute(operation, submission, input);
    heard.set(key, result);
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
    what: "loses where a redirect goes, the second time",
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
    what: "gives the operation nothing of the body",
    failing: "served: the operation gets",
    app: mapping(
      ({ toInput }) =>
        () =>
          toInput(async () => Buffer.from("{}")),
    ),
  },
  {
    what: "answers what the route threw by itself",
    failing: "served: if a route throws",
    app: mapping(
      ({ toInput }) =>
        (readBody) =>
          toInput(readBody).catch(() => ({ sent: "" })),
    ),
  },
  {
    what: "makes JSON of whatever the route makes",
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
    what: "forgets which headers the service wants to be kept",
    failing: "served: the first caller gets every header",
    app: without("storedHeaders"),
  },
  {
    what: "joins lines of one header",
    failing: "served: the first caller gets every header",
    response: rewriteHeader("set-cookie", (value) => (Array.isArray(value) ? value.join(", ") : value)),
  },
  {
    what: "forgets the headers of an answer without body",
    failing: "served: HEAD",
    response: (res) => dropHeader(res, "etag"),
  },
  {
    what: "does not say that an answer was not kept",
    failing: "served: an answer too large",
    response: (res) => dropHeader(res, "idempotency-status"),
  },
  ...["writes and answer", "a key with another body", "finished steps", "an unknown outcome"].map(
    (failing): Broken => ({
      what: `takes every request for a new one (${failing})`,
      failing: `served: ${failing}`,
      app: forgetful,
    }),
  ),
  ...["if the work throws", "a 429", "a store that is down", "two tenants", "a stored answer says"].map(
    (failing): Broken => ({
      what: `keeps whatever it has once answered (${failing})`,
      failing: `served: ${failing}`,
      app: (app) => remembering()(app),
    }),
  ),
  {
    what: "says until when of answers that nobody can ask for again",
    failing: "served: without a key",
    response: (res) => res.setHeader("Idempotency-Expires", "Sun, 06 Nov 1994 08:49:37 GMT"),
  },
  {
    what: "takes bodies of any size",
    failing: "served: a body over the limit",
    app: without("bodyLimitBytes"),
  },
  {
    what: "makes routes of whatever it is given",
    failing: "served: an operation without `run`",
    listener: () => (_req, res) => res.end(),
  },
  {
    what: "hands over handlers of whatever it is given",
    failing: "served: an operation that owns its work is rejected",
    listener: () => (_req, res) => res.end(),
  },
  {
    what: "lets a problem be cached",
    failing: "served: a missing key",
    response: rewriteHeader("cache-control", () => "max-age=60"),
  },
  {
    what: "gives requests without tenant a common one",
    failing: "served: a missing key",
    app: (app) => ({ ...app, tenant: (header) => header("x-tenant") || "everybody" }),
  },
  {
    what: "forgets the principal",
    failing: "served: a key with another body, or of another principal",
    app: submitting((submission) => ({ ...submission, principal: null })),
  },
  {
    what: "forgets the tenant",
    failing: "served: two tenants",
    app: submitting((submission) => ({ ...submission, key: { ...submission.key, tenant: "everybody" } })),
  },
  {
    what: "answers a conflict without saying when to come back",
    failing: "served: a duplicate of a running",
    response: (res) => dropHeader(res, "retry-after"),
  },
  {
    what: "answers a limit without saying when to come back",
    failing: "served: a tenant over its limit",
    response: (res) => dropHeader(res, "retry-after"),
  },
  {
    what: "takes an unknown outcome for a running request",
    failing: "served: an unknown outcome",
    app: executing((execute) => async (operation, submission, input) => {
      const result = await execute(operation, submission, input);
      return result.kind === "unknown" ? { ...result, kind: "in_progress", retryAfterMs: 1_000 } : result;
    }),
  },
  {
    what: "says until when on the first answer alone",
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
    what: "forgets how old a request may be",
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
    what: "answers before it is kept",
    failing: "served: no byte is sent",
    app: executing((execute) => async (operation, submission, input) => {
      const answer = { status: 201, headers: [], body: new Uint8Array(0), omitted: null };
      void execute(operation, submission, input);
      return { kind: "executed", recordId: "1", answer, stored: true, expiresAt: null };
    }),
  },
]);
