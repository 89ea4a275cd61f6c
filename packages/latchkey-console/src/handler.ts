import { type Clock, type Republish, StoreError } from "latchkey";
import { createOperator } from "latchkey/operator";
import { type Access, accessOf, checkOwnPage, wrongTokenPauseMs } from "./access.ts";
import {
  type ActionContext,
  checkJob,
  decideOne,
  forgetOne,
  retryOne,
  runJob,
  settleOne,
} from "./actions.ts";
import { assetsUnder } from "./assets.ts";
import { createJobs } from "./jobs.ts";
import { type ConsoleOptions, type ConsoleUser, checkConsoleOptions } from "./options.ts";
import { fieldsOf, textOf } from "./queries.ts";
import {
  inspect,
  listAudit,
  listDead,
  listRecords,
  overviewPage,
  type ReadContext,
  readCensus,
  readOverview,
  type Watched,
} from "./reads.ts";
import { redactOf } from "./redact.ts";
import { json, Refusal } from "./replies.ts";
import type { Session } from "./wire.ts";

export type ConsoleHandler = (request: Request) => Promise<Response>;

interface Site extends ReadContext {
  readonly readOnly: boolean;
  readonly redacts: boolean;
  readonly title: string | null;
  readonly origins: readonly string[];
  readonly access: Access;
  readonly clock: Clock;
  readonly assets: ReturnType<typeof assetsUnder>;
}

/**
 * Creates the console: one handler that can be mounted in any framework that has `Request` and `Response`, or can be given
 * them. It never rejects: failures are answers with an explanation.
 *
 * @throws {TypeError} for an unknown option, a token shorter than 16 characters, or neither `token` nor `authorize`
 */
export function consoleHandler<Tx>(options: ConsoleOptions<Tx>): ConsoleHandler {
  checkConsoleOptions(options);
  const { ports } = options.latchkey.runtime;
  const redact = options.redact ?? options.latchkey.runtime.redact ?? true;
  const { latchkey, republish, basePath = "", readOnly = false, title = null, origins = [] } = options;
  const site: Site = {
    watched: watchedOf(options),
    readOnly,
    redacts: redact !== false,
    title,
    origins,
    operator: createOperator({
      latchkey,
      ...(republish !== undefined && { republish: orRefusal(republish) }),
    }),
    redact: redactOf(redact),
    jobs: createJobs(ports),
    access: accessOf(options, ports.clock),
    clock: ports.clock,
    assets: assetsUnder(basePath),
  };
  return async (request) => {
    try {
      return await answer(site, request, pathOf(request, basePath));
    } catch (error) {
      return refusal(error);
    }
  };
}

function watchedOf<Tx>({ latchkey, worker, history }: ConsoleOptions<Tx>): Watched {
  const { store, operations, effects } = latchkey.runtime;
  return {
    store: store.name,
    overview: (overviewOptions) => latchkey.overview(overviewOptions),
    leases: () => new Map([...operations].map(([name, { settings }]) => [name, settings.leaseMs])),
    deduplicationOf: (effect) => effects.get(effect)?.settings.deduplication ?? null,
    worker: worker ?? null,
    history: history ?? null,
  };
}

/** A broker's error is not an error of the console. */
function orRefusal(republish: Republish): Republish {
  const unpublished = (cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const detail = `Publishing it failed: ${reason}`;
    return new Refusal(502, "Not published again. It stays dead.", detail, { cause });
  };
  return async (message) => {
    await Promise.resolve()
      .then(() => republish(message))
      .catch((cause) => {
        throw unpublished(cause);
      });
  };
}

/** Some frameworks remove the path that a handler is mounted under, others do not. */
function pathOf(request: Request, basePath: string): string {
  const { pathname } = new URL(request.url);
  const isBelow = pathname === basePath || pathname.startsWith(`${basePath}/`);
  return (isBelow ? pathname.slice(basePath.length) : pathname).replace(/^\//u, "");
}

async function answer(site: Site, request: Request, path: string): Promise<Response> {
  if (path.startsWith("api/")) return answerApi(site, request, path.slice("api/".length));
  if (request.method !== "GET" && request.method !== "HEAD") {
    throw new Refusal(405, "Nothing was done.", "This address accepts GET only.");
  }
  return (await site.assets.file(path)) ?? (await site.assets.page());
}

async function answerApi(site: Site, request: Request, path: string): Promise<Response> {
  const { method } = request;
  const isRead = method === "GET" || method === "HEAD";
  if (!isRead) checkOwnPage(request, site.origins);
  if (path === "session" && method === "POST") return signIn(site, request);
  if (path === "session" && method === "DELETE") return signOut(site, request);
  const user = await site.access.userOf(request);
  if (user === null) {
    const problem = { title: "You are not signed in.", detail: signInHint(site.access) };
    return json(401, { ...problem, signIn: site.access.signIn !== null });
  }
  if (isRead) return read(site, request, path, user);
  if (method !== "POST")
    throw new Refusal(405, "Nothing was done.", `This address does not accept ${method}.`);
  if (!mayAct(site, user)) {
    throw new Refusal(
      403,
      "Nothing was changed. The console is read-only for you.",
      "To settle, retry, forget, redrive or discard you need more rights, or the command line.",
    );
  }
  return act(site, request, path, user.operator);
}

function signInHint({ signIn: form }: Access): string {
  return form === null
    ? "The service that this console belongs to does not recognise you: sign in there."
    : "Sign in with the console's token and your name.";
}

function mayAct(site: Pick<Site, "readOnly">, { readOnly = false }: ConsoleUser): boolean {
  return !readOnly && !site.readOnly;
}

async function signIn({ access, clock }: Site, request: Request): Promise<Response> {
  if (access.signIn === null) throw new Refusal(404, "This console has no sign-in.", signInHint(access));
  const fields = await fieldsOf(request);
  const operator = textOf(fields, "operator").slice(0, 100);
  const cookie = access.signIn.begin(request, fields.token, operator);
  if (cookie === null) {
    await new Promise<void>((resolve) => clock.startTimer(wrongTokenPauseMs, resolve, "awaited"));
    throw new Refusal(
      403,
      "Not signed in. The token is wrong.",
      "The token is shown where the console was started.",
    );
  }
  return json(200, { operator }, { "Set-Cookie": cookie });
}

function signOut({ access }: Site, request: Request): Response {
  const cookie = access.signIn?.end(request);
  return json(200, {}, cookie === undefined ? {} : { "Set-Cookie": cookie });
}

async function read(site: Site, request: Request, path: string, user: ConsoleUser): Promise<Response> {
  const query = new URL(request.url).searchParams;
  switch (path) {
    case "session":
      return json(200, sessionOf(site, user));
    case "overview":
      return overviewPage(site);
    case "depths":
      return json(200, { overview: await readOverview(site), jobs: site.jobs.recent() });
    case "records":
      return listRecords(site, query);
    case "census":
      return readCensus(site, query);
    case "dead":
      return listDead(site, query);
    case "audit":
      return listAudit(site, query);
    case "inspect":
      return inspect(site, query);
    default: {
      const id = /^jobs\/([0-9a-f-]{36})$/u.exec(path)?.[1];
      const job = id === undefined ? null : site.jobs.find(id);
      if (job !== null) return json(200, job);
      throw new Refusal(404, "Not found.", "It may have been stored by a process that has ended.");
    }
  }
}

function sessionOf(site: Site, user: ConsoleUser): Session {
  const { operator, access, redacts, title } = site;
  return {
    operator: user.operator,
    mayAct: mayAct(site, user),
    redacts,
    title,
    canSignOut: access.signIn !== null,
    abilities: operator.abilities,
  };
}

async function act(site: Site, request: Request, path: string, name: string): Promise<Response> {
  const context: ActionContext = { operator: site.operator, jobs: site.jobs, name };
  const fields = await fieldsOf(request);
  switch (path) {
    case "settle":
      return settleOne(context, fields);
    case "forget":
      return forgetOne(context, fields);
    case "retry":
      return retryOne(context, fields);
    case "decide":
      return decideOne(context, fields);
    case "jobs":
      return checkJob(context, fields);
    default: {
      const id = /^jobs\/([0-9a-f-]{36})\/run$/u.exec(path)?.[1];
      if (id !== undefined) return runJob(context, id, fields);
      throw new Refusal(404, "Nothing was done.", "This action does not exist.");
    }
  }
}

function refusal(error: unknown): Response {
  if (error instanceof Refusal) return json(error.status, error.problem);
  if (error instanceof StoreError) {
    return json(503, {
      title: "The store did not answer.",
      detail:
        error.certainty === "not_sent"
          ? "Nothing was changed. Try again once it is back."
          : "It is not known whether anything was changed. You can safely try it again.",
    });
  }
  if (error instanceof TypeError) {
    return json(400, { title: "Nothing was done. The request was not understood.", detail: error.message });
  }
  return json(500, {
    title: "The console failed.",
    detail: "Look at the record again before you repeat the action; the service's log may have details.",
  });
}
