/** Answers at a glance: is anything wrong, since when, how old is the oldest entry, and where to click. */
import type { ComponentChildren } from "preact";
import { type Census, type DepthView, type OverviewPage, others } from "../src/wire.ts";
import { TenantLink } from "./audit.tsx";
import { Requests } from "./chart.tsx";
import { ageText, clockText, countText, msText } from "./format.ts";
import { Loading, Notice, StateIcon, type StateName } from "./parts.tsx";
import { Main } from "./shell.tsx";
import { addressOf, ageOf, lostSince, paused } from "./state.ts";
import { useAnswer } from "./use-answer.ts";

export function OverviewScreen() {
  const { value: page, problem } = useAnswer<OverviewPage>("overview");
  if (page === null) {
    return (
      <Main>
        {problem === null ? (
          <Loading label="Loading the overview" />
        ) : (
          lostSince.value === null && <Notice problem={problem} />
        )}
      </Main>
    );
  }
  return (
    <Main>
      <Head page={page} />
      <Strip page={page} />
      {page.history !== null && <Requests history={page.history} />}
      <div class="cols after-head">
        {page.history !== null && page.history.operations.length > 0 && <Operations page={page} />}
        <Causes page={page} />
        {page.services !== null && <Services services={page.services} now={page.overview.now} />}
        {page.history !== null && page.history.tenants.length > 0 && (
          <Duplicates tenants={page.history.tenants} />
        )}
      </div>
    </Main>
  );
}

function Head({ page }: { readonly page: OverviewPage }) {
  const { overview, unknown, dead } = page;
  const first = unknown.causes[0];
  return (
    <header class="head">
      <h1>{verdictOf(unknown, dead)}</h1>
      <p class="asof">
        As of {clockText(overview.now)} UTC, {paused.value ? "paused" : "every 5 s"} ·{" "}
        <button class="link" type="button" onClick={() => (paused.value = !paused.value)}>
          {paused.value ? "Resume" : "Pause"}
        </button>
      </p>
      <p class="lead">{leadOf(page)}</p>
      {unknown.count > 0 && first !== undefined && (
        <div class="do">
          <a
            class="button primary"
            href={addressOf(
              "unknown",
              unknown.causes.length === 1 ? {} : { operation: first.operation, errorCode: first.errorCode },
            )}
          >
            Open the {countText(unknown.causes.length === 1 ? unknown.count : first.count)}
          </a>
        </div>
      )}
    </header>
  );
}

function verdictOf(unknown: Census, dead: Census): string {
  if (unknown.count === 0 && dead.count === 0) return "Nothing waits for a person";
  const letters =
    dead.count === 1 ? "1 dead letter waits" : `${countText(dead.count, dead.more)} dead letters wait`;
  if (unknown.count === 0) return `${letters} for a person`;
  const outcomes =
    unknown.count === 1
      ? "1 outcome is unknown"
      : `${countText(unknown.count, unknown.more)} outcomes are unknown`;
  const [first] = unknown.causes;
  const isCommon =
    first !== undefined && first.count > 1 && unknown.causes.length > 1 && first.count >= unknown.count * 0.8;
  if (isCommon) return `${outcomes}. ${countText(first.count)} of them have the same cause.`;
  return dead.count === 0 ? outcomes : `${outcomes}, ${letters}`;
}

function leadOf({ unknown, dead, services, overview }: OverviewPage): string {
  const [cause] = unknown.causes;
  const late = services?.filter(({ alive, running }) => running && !alive) ?? [];
  const lateText =
    late.length === 0
      ? ""
      : ` Also, ${late.map(({ name }) => name).join(" and ")} ${late.length === 1 ? "is" : "are"} late.`;
  if (cause !== undefined) {
    return `${cause.operation}: ${cause.reason ?? cause.errorCode ?? "the reason is not known."} Their keys stay locked, and their retries get 409, until each is settled.${lateText}`;
  }
  if (dead.count > 0) return `None of them is sent until a person decides.${lateText}`;
  if (overview.overdueLeases.count > 0)
    return `All outcomes are known. ${countText(overview.overdueLeases.count)} leases have ended and wait for the lease-rescuer.${lateText}`;
  const round =
    services === null || late.length > 0
      ? ""
      : ` All ${services.length} background services of this process are running on time.`;
  return `All outcomes are known, and there are no dead letters.${round}${lateText}`;
}

function Strip({ page }: { readonly page: OverviewPage }) {
  const { overview, unknown, dead } = page;
  const isStale = lostSince.value !== null;
  return (
    <section class={`strip${isStale ? " stale" : ""}`} aria-label="Health">
      <Cell path="unknown" label="Unknown" state="unknown" depth={overview.unknown} waits="waits">
        {trendOf(unknown)}
      </Cell>
      <Cell path="dead" label="Dead letters" state="dead" depth={overview.dead} waits="waits for-dead">
        {trendOf(dead)}
      </Cell>
      <Cell path="retryable" label="Retryable" state="retryable" depth={overview.retryable}>
        continues automatically
      </Cell>
      <Cell path="pending" label="Pending" state="pending" depth={overview.pending}>
        waits for a worker
      </Cell>
      <Cell
        path=""
        label="Undelivered effects"
        depth={overview.undelivered ?? { count: 0, more: false, oldestAt: null }}
      >
        {overview.undelivered === null ? `${overview.store} has no outbox` : "sent by the effect-dispatcher"}
      </Cell>
    </section>
  );
}

function trendOf({ causes, count }: Census): string {
  const [first] = causes;
  if (first === undefined) return "none waiting";
  return causes.length === 1 && count > 1
    ? "all with one cause"
    : `${countText(first.count)} with ${first.errorCode ?? "one cause"}`;
}

interface CellProps {
  readonly path: string;
  readonly label: string;
  readonly depth: DepthView;
  readonly state?: StateName;
  readonly waits?: string;
  readonly children: ComponentChildren;
}

function Cell({ path, label, depth, state, waits = "", children }: CellProps) {
  const isNone = depth.count === 0;
  return (
    <a class={isNone ? "" : waits} href={addressOf(path)}>
      <span class="what">
        {state !== undefined && <StateIcon state={state} none={isNone} />}
        {label}
      </span>
      <span class="figure">{countText(depth.count, depth.more)}</span>
      <span class="oldest">
        {depth.oldestAt === null ? (
          "none"
        ) : (
          <>
            oldest <b>{ageText(ageOf(depth.oldestAt))}</b>
          </>
        )}
      </span>
      <br />
      <span class="trend">{children}</span>
    </a>
  );
}

/** Causes of entries that wait for a person, most frequent first. */
function Causes({ page }: { readonly page: OverviewPage }) {
  const causes = [...page.unknown.causes, ...page.dead.causes].slice(0, 8);
  if (causes.length === 0) return null;
  return (
    <section class="section c7" aria-labelledby="h-causes">
      <header>
        <h2 id="h-causes">Waiting entries, by cause</h2>
      </header>
      <table class="table stacks svc">
        <tbody>
          {causes.map(({ kind, operation, name, errorCode, count, oldestAt }) => (
            <tr key={`${kind} ${operation} ${name} ${errorCode}`}>
              <td class="name">
                <StateIcon state={kind === "record" ? "unknown" : "dead"} />{" "}
                <a
                  class="row-link mono"
                  href={
                    kind === "record"
                      ? addressOf("unknown", { operation, errorCode })
                      : addressOf("dead", { cause: JSON.stringify([kind, operation, name, errorCode]) })
                  }
                >
                  {kind === "effect" ? name : operation}
                </a>
              </td>
              <td class="did">
                <code>{errorCode}</code>
              </td>
              <td class="num nowrap hide">
                <b>{countText(count)}</b>
              </td>
              <td class="when nowrap num quiet">oldest {ageText(ageOf(oldestAt))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Operations({ page }: { readonly page: OverviewPage }) {
  const unknownOf = (operation: string) =>
    page.unknown.causes
      .filter((cause) => cause.operation === operation)
      .reduce((sum, { count }) => sum + count, 0);
  const rows = [...(page.history?.operations ?? [])].sort(
    (left, right) =>
      unknownOf(right.operation) - unknownOf(left.operation) || right.perMinute - left.perMinute,
  );
  return (
    <section class="section c12" aria-labelledby="h-ops">
      <header>
        <h2 id="h-ops">Operations</h2>
        <span class="say">most unknown first; executions in this process, last 15 min</span>
      </header>
      <table class="table stacks ops">
        <thead>
          <tr>
            <th>Operation</th>
            <th>Execution</th>
            <th class="num">Per minute</th>
            <th class="num">p50</th>
            <th class="num">p99</th>
            <th>p99, share of lease</th>
            <th class="num sorted">Unknown</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ operation, execution, perMinute, p50Ms, p99Ms, leaseMs }) => (
            <tr key={operation}>
              <td class="name mono">{operation}</td>
              <td class="mode quiet nowrap">{execution}</td>
              <td class="num rate">{perMinute < 10 ? perMinute.toFixed(1) : Math.round(perMinute)}</td>
              <td class="num p50" data-label="p50">
                {msText(p50Ms)}
              </td>
              <td class="num p99" data-label="p99">
                {msText(p99Ms)}
              </td>
              <td class="mt">
                <LeaseShare hasLease={execution !== "transaction"} p99Ms={p99Ms} leaseMs={leaseMs} />
              </td>
              <td class="num hide2">
                {unknownOf(operation) === 0 ? (
                  <span class="faint">0</span>
                ) : (
                  <a href={addressOf("unknown", { operation })}>{countText(unknownOf(operation))}</a>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface LeaseShareProps {
  readonly hasLease: boolean;
  readonly p99Ms: number | null;
  readonly leaseMs: number | null;
}

/** At four fifths of the lease, one slow minute would end attempts that still work. */
function LeaseShare({ hasLease, p99Ms, leaseMs }: LeaseShareProps) {
  if (leaseMs === null || p99Ms === null) return <span class="faint">{hasLease ? "–" : "no lease"}</span>;
  const share = Math.min(100, (p99Ms / leaseMs) * 100);
  return (
    <span class={`meter${share >= 80 ? " over" : ""}`}>
      <i style={{ "--w": `${share}%` }} />
      <b>{share < 1 ? "under 1 %" : `${Math.round(share)} %`}</b>
    </span>
  );
}

function Services({
  services,
  now,
}: {
  readonly services: NonNullable<OverviewPage["services"]>;
  readonly now: string;
}) {
  return (
    <section class="section c5" aria-labelledby="h-svc">
      <header>
        <h2 id="h-svc">Background services</h2>
        <span class="say">in this process</span>
      </header>
      <table class="table stacks svc">
        <tbody>
          {services.map(({ name, alive, running, lastRoundAt, failed }) => (
            <tr key={name}>
              <td class="name nowrap">
                <span class="state">
                  {alive || !running ? (
                    <StateIcon state={running ? "completed" : "pending"} />
                  ) : (
                    <svg class="st" aria-hidden="true">
                      <use href="#i-late" />
                    </svg>
                  )}
                  {name}
                </span>{" "}
                {running && !alive && <b class="tag">late</b>}
              </td>
              <td class="when nowrap">
                {lastRoundAt === null
                  ? "not yet"
                  : `${ageText(Math.max(0, Date.parse(now) - Date.parse(lastRoundAt)))} ago`}
              </td>
              <td class="did quiet">{!running ? "not running" : failed ? "its last run failed" : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Duplicates({ tenants }: { readonly tenants: NonNullable<OverviewPage["history"]>["tenants"] }) {
  const most = Math.max(...tenants.map(({ requests, duplicates }) => duplicates / requests));
  return (
    <section class="section c5" aria-labelledby="h-ten">
      <header>
        <h2 id="h-ten">Duplicates by tenant</h2>
        <span class="say">share of requests that were duplicates</span>
      </header>
      <table class="table">
        <tbody>
          {tenants.map(({ tenant, requests, duplicates }) => (
            <tr key={tenant}>
              <td class="nowrap">{tenant === others ? tenant : <TenantLink tenant={tenant} />}</td>
              <td class="barcell">
                <span class="meter">
                  <i style={{ "--w": `${(duplicates / requests / most) * 100}%` }} />
                </span>
              </td>
              <td class="num nowrap">{((duplicates / requests) * 100).toFixed(1)} %</td>
              <td class="num quiet">{countText(duplicates)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
