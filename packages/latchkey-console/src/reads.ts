/** The data that the page shows. */
import type { Overview, Redact, Worker } from "latchkey";
import type { Operator, RecordReport } from "latchkey/operator";
import type { History } from "./history.ts";
import type { Jobs } from "./jobs.ts";
import { filterOf, oneOf, pageOf } from "./queries.ts";
import { redacted } from "./redact.ts";
import { json, Refusal } from "./replies.ts";
import type { DepthView, OverviewPage, OverviewView, ServiceView } from "./wire.ts";

/** The parts of the latchkey and of the process that are read in addition to the operator's part. */
export interface Watched {
  readonly store: string;
  overview(options: { readonly countMax: number }): Promise<Overview>;
  /** By operation. */
  readonly leases: () => ReadonlyMap<string, number>;
  /** Null: the effect is not defined in this process. */
  readonly deduplicationOf: (effect: string) => string | null;
  readonly worker: Pick<Worker, "health"> | null;
  readonly history: History | null;
}

export interface ReadContext {
  readonly watched: Watched;
  readonly operator: Operator;
  readonly redact: Redact;
  readonly jobs: Jobs;
}

type Depth = Overview["records"]["unknown"];

/** Counting further would read more of the index for every viewer. */
const countMax = 10_000;

export async function readOverview({ watched }: ReadContext): Promise<OverviewView> {
  const { now, records, overdueLeases, effects, messages } = await watched.overview({ countMax });
  const dead = [effects?.dead, messages?.dead].flatMap((depth) => (depth == null ? [] : [depth]));
  return {
    now: new Date(now).toISOString(),
    store: watched.store,
    unknown: depthView(records.unknown),
    dead: depthView(dead.reduce(sum, { count: 0, more: false, oldestAt: null })),
    undelivered: effects && depthView(sum(effects.pending, effects.claimed)),
    pending: depthView(records.pending),
    inProgress: depthView(records.inProgress),
    retryable: depthView(records.retryable),
    overdueLeases: depthView(overdueLeases),
  };
}

function sum(left: Depth, right: Depth): Depth {
  const times = [left.oldestAt, right.oldestAt].flatMap((at) => (at === null ? [] : [at]));
  return {
    count: left.count + right.count,
    more: left.more || right.more,
    oldestAt: times.length === 0 ? null : Math.min(...times),
  };
}

function depthView({ count, more, oldestAt }: Depth): DepthView {
  return { count, more, oldestAt: oldestAt === null ? null : new Date(oldestAt).toISOString() };
}

export async function overviewPage(context: ReadContext): Promise<Response> {
  const { watched, operator } = context;
  const { history, worker, leases } = watched;
  const page: OverviewPage = {
    overview: await readOverview(context),
    unknown: await operator.census("unknown"),
    dead: await operator.census("dead"),
    services: worker === null ? null : await servicesOf(worker),
    history: history?.view(leases()) ?? null,
  };
  return json(200, page);
}

async function servicesOf(worker: Pick<Worker, "health">): Promise<readonly ServiceView[]> {
  const { services } = await worker.health();
  // Errors are not included: their messages may contain host names and values.
  return services.map(({ name, alive, running, lastRoundAt, lastError }) => ({
    name,
    alive,
    running,
    lastRoundAt: lastRoundAt === null ? null : new Date(lastRoundAt).toISOString(),
    failed: lastError !== null,
  }));
}

const states = ["pending", "in_progress", "completed", "failed", "retryable", "unknown", "expired"] as const;

export async function listRecords({ operator }: ReadContext, query: URLSearchParams): Promise<Response> {
  const state = oneOf(query.get("state"), states, "state");
  return json(200, await operator.records(state, filterOf(Object.fromEntries(query)), pageOf(query)));
}

export async function readCensus({ operator }: ReadContext, query: URLSearchParams): Promise<Response> {
  const queue = oneOf(query.get("queue"), [...states, "dead"], "queue");
  return json(200, await operator.census(queue, filterOf(Object.fromEntries(query))));
}

export async function listDead({ operator }: ReadContext, query: URLSearchParams): Promise<Response> {
  const kind = oneOf(query.get("kind"), ["effect", "message"], "kind");
  const filter = filterOf(Object.fromEntries(query));
  return json(
    200,
    kind === "effect"
      ? await operator.deadEffects(filter, pageOf(query))
      : await operator.deadMessages(filter, pageOf(query)),
  );
}

/** @throws {Refusal} if the store keeps audit rows by key only. */
export async function listAudit(
  { operator, watched }: ReadContext,
  query: URLSearchParams,
): Promise<Response> {
  const tenant = query.get("tenant");
  const page = await operator.auditLog(tenant ? { tenant } : {}, pageOf(query));
  if (page !== null) return json(200, page);
  throw new Refusal(
    404,
    "This store has no audit log.",
    `${watched.store} keeps audit rows by key only: a record's page shows its own.`,
  );
}

export async function inspect(
  { watched, operator, redact }: ReadContext,
  query: URLSearchParams,
): Promise<Response> {
  const [tenant, operation, key] = ["tenant", "operation", "key"].map((name) => query.get(name) ?? "");
  const found =
    tenant && operation && key
      ? await operator.inspect({ tenant, operation, key })
      : await operator.inspect(query.get("name")?.trim() ?? "");
  const shown = redacted(found, redact);
  return json(
    200,
    shown.kind === "record" ? { ...shown, deduplication: deduplicationOf(watched, shown.report) } : shown,
  );
}

/** Deduplication of the call in doubt, if its effect is defined in this process. */
function deduplicationOf(watched: Watched, { steps }: RecordReport): string | null {
  const call = steps.find(({ state }) => state === "started")?.call ?? null;
  return call === null ? null : watched.deduplicationOf(call.effect);
}
