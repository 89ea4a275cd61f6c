/** One record: what happened, where it stopped, and what can be done now. */
import type { Inspected, RecordReport, Session } from "../src/wire.ts";
import { TenantLink } from "./audit.tsx";
import { DecideDead } from "./decide.tsx";
import { NotFound } from "./find.tsx";
import { ageText, exactTime, timeText } from "./format.ts";
import { Hasten } from "./hasten.tsx";
import { Kept } from "./kept.tsx";
import { changeText, eventsOf } from "./life.ts";
import { LifePicture } from "./life.tsx";
import { Entry } from "./life-entry.tsx";
import { Copy, Json, Loading, Notice, StateWord } from "./parts.tsx";
import { RequestSummary } from "./request.tsx";
import { SettlePanel } from "./settle.tsx";
import { Main } from "./shell.tsx";
import { addressOf, ageOf, route, setQuery } from "./state.ts";
import { useAnswer } from "./use-answer.ts";

export function RecordPage({ id, who }: { readonly id: string; readonly who: Session }) {
  const found = useAnswer<Inspected>("inspect", { name: id });
  const isSettling = route.value.query.get("settle") !== null;
  const report = found.value?.kind === "record" ? found.value.report : null;
  const page = (
    <Main>
      {found.problem !== null && report === null && <Notice problem={found.problem} />}
      {found.value === null && found.problem === null && <Loading label="Loading the record" />}
      {found.value !== null && report === null && <NotFound name={id} />}
      {report !== null && <Whole report={report} who={who} reload={found.reload} />}
    </Main>
  );
  const isOpen = isSettling && report !== null;
  return (
    <div class={isOpen ? "with-panel" : ""}>
      {page}
      {isOpen && (
        <SettlePanel id={id} who={who} onClose={() => setQuery({ settle: null })} onChanged={found.reload} />
      )}
    </div>
  );
}

interface WholeProps {
  readonly report: RecordReport;
  readonly who: Session;
  readonly reload: () => void;
}

const homes: Readonly<Record<string, string>> = {
  unknown: "unknown",
  pending: "pending",
  in_progress: "in-progress",
  retryable: "retryable",
};

function Whole({ report, who, reload }: WholeProps) {
  const home = homes[report.state];
  return (
    <>
      <p class="crumbs">
        {home !== undefined && (
          <>
            <a href={addressOf(home)}>{report.state.replace("_", " ")}</a> /{" "}
          </>
        )}
        <TenantLink tenant={report.tenant} /> / <span class="mono">{report.operation}</span>
      </p>
      <header class="head">
        <h1 class="ident">
          <span class="mono">{report.key}</span>
          <small>
            <StateWord state={report.state} />
          </small>
        </h1>
        <p class="asof">As of {exactTime(report.now).slice(0, 8)} UTC</p>
        <p class="lead">{leadOf(report)}</p>
      </header>
      <LifePicture report={report} />
      <div class="cols after-head">
        <section class="section c7">
          <header>
            <h2>What happened, in order</h2>
            <span class="say">UTC, the store's time</span>
          </header>
          <ol class="log">
            {eventsOf(report).map((event) => (
              <Entry
                key={`${event.kind} ${event.at} ${event.step?.name ?? event.effect?.id ?? event.audit?.id}`}
                event={event}
                report={report}
              />
            ))}
          </ol>
        </section>
        <div class="c5">
          <Choices report={report} who={who} reload={reload} />
          <RequestSummary report={report} />
          <StoredAnswer report={report} who={who} />
          <Facts report={report} />
          <Kept title="Repeated requests" kept={report.repeats} now={report.now} />
          <Kept title="Look-ups" kept={report.lookUps} now={report.now} />
          <Audit report={report} />
        </div>
      </div>
    </>
  );
}

function leadOf({ state, reason, lastErrorCode, createdAt }: RecordReport): string {
  if (reason != null) return reason;
  const age = ageText(ageOf(createdAt));
  if (state === "completed") return `It has its answer, and retries get it. It started ${age} ago.`;
  return `It started ${age} ago${lastErrorCode == null ? "" : `; its last error is ${lastErrorCode}`}.`;
}

function Choices({ report, who, reload }: WholeProps) {
  const dead = report.deadChoices;
  return (
    <section class="section">
      <header>
        <h2>What you can do now</h2>
      </header>
      <div class="box">
        {report.state === "unknown" && (
          <div class="do-row">
            <div>
              <h3>Settle it</h3>
              <p>
                Say what happened, and how you know.{" "}
                {who.mayAct ? "" : "You can view records, but not settle them."}
              </p>
            </div>
            {who.mayAct && (
              <a class="button primary" href={addressOf(`record/${report.id}`, { settle: "1" })}>
                Settle…
              </a>
            )}
          </div>
        )}
        {dead.map(({ death, choices }) => {
          const effect = report.effects.find(({ id }) => death.startsWith(id));
          return (
            <DecideDead
              key={death}
              name={effect?.effect ?? "effect"}
              death={death}
              choices={choices}
              who={who}
              onChanged={reload}
            />
          );
        })}
        {report.state !== "unknown" && dead.length === 0 && (
          <div class="do-row">
            <div>
              <h3>Nothing to do</h3>
              {report.next.map((sentence) => (
                <p key={sentence}>{sentence}</p>
              ))}
            </div>
          </div>
        )}
        {who.mayAct && <Hasten report={report} who={who} onChanged={reload} />}
      </div>
    </section>
  );
}

function StoredAnswer({ report, who }: { readonly report: RecordReport; readonly who: Session }) {
  const { answer } = report;
  if (answer === null) return null;
  return (
    <section class="section">
      <header>
        <h2>Stored answer</h2>
        {"value" in answer && (
          <span class="say">
            {answer.value.status},{" "}
            {answer.value.headers.length === 1 ? "1 header" : `${answer.value.headers.length} headers`}
          </span>
        )}
      </header>
      <div class="box">
        {"value" in answer ? (
          <pre class="answer">
            <span class="k">HTTP {answer.value.status}</span>
            {answer.value.headers.map(([name, value]) => (
              <span key={name}>
                {"\n"}
                <span class="k">{name.toLowerCase()}:</span> {value}
              </span>
            ))}
            {"\n\n"}
            {answer.value.omitted === null ? (
              <Json value={answer.value.body} />
            ) : (
              `(body not stored: ${answer.value.omitted})`
            )}
          </pre>
        ) : (
          <p class="quiet">{answer.unreadable} bytes, which cannot be read with this service's codec.</p>
        )}
        {who.redacts && <p class="hint">Values are masked by the console's `redact` option.</p>}
      </div>
    </section>
  );
}

function Facts({ report }: { readonly report: RecordReport }) {
  const { now } = report;
  const times = [
    ["Begun", report.createdAt],
    ["Lease ends", report.leaseEndsAt],
    ["Finished", report.finishedAt],
    ["Next look-up", report.reconcileAfter ?? undefined],
    ["Answer stored until", report.expiresAt],
    ["Key forgotten after", report.forgetAt],
  ] as const;
  return (
    <section class="section">
      <header>
        <h2>Record</h2>
      </header>
      <dl class="facts">
        <dt>Record</dt>
        <dd>
          <Copy text={report.id} />
        </dd>
        {report.traceId !== undefined && (
          <>
            <dt>Trace</dt>
            <dd>
              <Copy text={report.traceId} />
            </dd>
          </>
        )}
        <dt>Scope</dt>
        <dd class="mono">{report.scope}</dd>
        <dt>Attempt</dt>
        <dd>{report.attempt}</dd>
        {report.recoveryPoint !== null && (
          <>
            <dt>Recovery point</dt>
            <dd class="mono">{report.recoveryPoint}</dd>
          </>
        )}
        {times.flatMap(([label, at]) =>
          at === undefined
            ? []
            : [<dt key={label}>{label}</dt>, <dd key={`${label} at`}>{timeText(at, now)}</dd>],
        )}
      </dl>
    </section>
  );
}

function Audit({ report }: { readonly report: RecordReport }) {
  if (report.audit.length === 0) return null;
  return (
    <section class="section">
      <header>
        <h2>Audit</h2>
        <span class="say">for all lives of the key</span>
      </header>
      <table class="table stacks audit">
        <tbody>
          {report.audit.toReversed().map((entry) => (
            <tr key={entry.id}>
              <td class="nowrap faint">{timeText(entry.at, report.now)}</td>
              <td>
                <b>{entry.actor}</b>: {changeText(entry)}, {entry.proof}
                {entry.recordId === report.id ? "" : ", an earlier life"}
                {entry.reason !== null && <p class="quiet small">“{entry.reason}”</p>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
