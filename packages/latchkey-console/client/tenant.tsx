/** One tenant: what waits, in which queue and why, and which decisions were made. */
import type { AuditLogView, Census, Page, Session } from "../src/wire.ts";
import { AuditRows } from "./audit.tsx";
import { ageText, countText } from "./format.ts";
import { Notice, StateIcon, type StateName } from "./parts.tsx";
import { Main } from "./shell.tsx";
import { addressOf, ageOf, route } from "./state.ts";
import { useAnswer } from "./use-answer.ts";

const queues = [
  { queue: "unknown", path: "unknown", label: "Unknown" },
  { queue: "dead", path: "dead", label: "Dead letters" },
  { queue: "retryable", path: "retryable", label: "Retryable" },
  { queue: "in_progress", path: "in-progress", label: "In progress" },
  { queue: "pending", path: "pending", label: "Pending" },
] as const;

export function TenantPage({ who }: { readonly who: Session }) {
  const tenant = route.value.query.get("name") ?? "";
  const unknown = useAnswer<Census>("census", { queue: "unknown", tenant });
  const dead = useAnswer<Census>("census", { queue: "dead", tenant });
  return (
    <Main>
      <p class="crumbs">tenant</p>
      <header class="head">
        <h1>{tenant}</h1>
        <p class="lead">{verdictOf(unknown.value, dead.value)}</p>
      </header>
      <section class="section" aria-label="Waiting entries">
        <table class="table stacks svc tenant">
          <thead>
            <tr>
              <th>Queue</th>
              <th class="num">Waiting</th>
              <th>Oldest</th>
              <th>Most frequent cause</th>
            </tr>
          </thead>
          <tbody>
            {queues.map(({ queue, path, label }) => (
              <QueueRow key={queue} queue={queue} path={path} label={label} tenant={tenant} />
            ))}
          </tbody>
        </table>
      </section>
      <p class="after-head">
        <a href={addressOf("records", { tenant })}>Look up one of its keys</a>
      </p>
      {who.abilities.auditLog && <Decided tenant={tenant} />}
      {who.mayAct && who.abilities.deleteTenant && <Leaving tenant={tenant} />}
    </Main>
  );
}

function verdictOf(unknown: Census | null, dead: Census | null): string {
  if (unknown === null || dead === null) return "What waits for this tenant, and which decisions were made.";
  const parts = [
    ...(unknown.count === 0
      ? []
      : [
          `${countText(unknown.count, unknown.more)} unknown ${unknown.count === 1 ? "outcome" : "outcomes"}`,
        ]),
    ...(dead.count === 0
      ? []
      : [`${countText(dead.count, dead.more)} dead ${dead.count === 1 ? "letter" : "letters"}`]),
  ];
  if (parts.length === 0) return "Nothing waits for a person.";
  const isOne = unknown.count + dead.count === 1;
  return `${parts.join(" and ")} ${isOne ? "waits" : "wait"} for a person.`;
}

interface QueueRowProps {
  readonly queue: StateName;
  readonly path: string;
  readonly label: string;
  readonly tenant: string;
}

function QueueRow({ queue, path, label, tenant }: QueueRowProps) {
  const { value: census, problem } = useAnswer<Census>("census", { queue, tenant });
  const [cause] = census?.causes ?? [];
  const isNone = census === null || census.count === 0;
  return (
    <tr>
      <td class="name nowrap">
        <span class="state">
          <StateIcon state={queue} none={isNone} />
          {isNone ? label : <a href={addressOf(path, { tenant })}>{label}</a>}
        </span>
      </td>
      <td class="num" data-label="Waits">
        {census === null ? "" : isNone ? <span class="faint">0</span> : countText(census.count, census.more)}
      </td>
      <td class="when nowrap quiet">{census?.oldestAt == null ? "" : ageText(ageOf(census.oldestAt))}</td>
      <td class="did quiet">
        {problem !== null && census === null && problem.title}
        {cause !== undefined && (
          <>
            <span class="mono">{cause.kind === "effect" ? cause.name : cause.operation}</span>
            {cause.errorCode !== null && (
              <>
                {" "}
                · <code>{cause.errorCode}</code>
              </>
            )}
          </>
        )}
      </td>
    </tr>
  );
}

function Decided({ tenant }: { readonly tenant: string }) {
  const { value: page, problem } = useAnswer<Page<AuditLogView>>("audit", { tenant, limit: "5" });
  return (
    <section class="section" aria-labelledby="h-decided">
      <header>
        <h2 id="h-decided">Last decisions</h2>
        {page !== null && page.next !== null && (
          <a class="end" href={addressOf("audit", { tenant })}>
            Show all
          </a>
        )}
      </header>
      {problem !== null && page === null && <Notice problem={problem} />}
      {page?.items.length === 0 && <p class="quiet">There are none.</p>}
      {page !== null && page.items.length > 0 && <AuditRows entries={page.items} hasTenant={false} />}
    </section>
  );
}

/** Deleting a large tenant takes minutes, so the command line does it: it can continue after a crash. */
function Leaving({ tenant }: { readonly tenant: string }) {
  return (
    <section class="section" aria-labelledby="h-leaving">
      <header>
        <h2 id="h-leaving">If this tenant leaves</h2>
      </header>
      <p class="quiet">The command line deletes all data of this tenant. First count what it would delete:</p>
      <p>
        <code>latchkey delete-tenant {shellWord(tenant)} --dry-run</code>
      </p>
    </section>
  );
}

function shellWord(text: string): string {
  return /^[\w.@:/-]+$/u.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
