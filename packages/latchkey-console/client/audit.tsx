/** The audit log: who decided what, newest first, for all tenants or for one. */
import type { AuditLogView, Page } from "../src/wire.ts";
import { timeText } from "./format.ts";
import { decisionText } from "./life.ts";
import { Empty, Loading, Notice } from "./parts.tsx";
import { Main } from "./shell.tsx";
import { addressOf, overview, route } from "./state.ts";
import { useAnswer } from "./use-answer.ts";

const limit = 50;

export function AuditPage() {
  const { query, path } = route.value;
  const tenant = query.get("tenant");
  const from = query.get("from");
  const { value: page, problem } = useAnswer<Page<AuditLogView>>("audit", {
    tenant,
    from,
    limit: String(limit),
  });
  return (
    <Main>
      <header class="head">
        <h1>{tenant === null ? "Audit log" : `Audit log of ${tenant}`}</h1>
        <p class="lead">
          Who settled, redrove, discarded, retried, forgot or deleted what, and why. Audit rows outlive their
          records.
          {tenant !== null && (
            <>
              {" "}
              <a href={addressOf("audit")}>All tenants</a>
            </>
          )}
        </p>
      </header>
      {problem !== null && page === null && <Notice problem={problem} class="after-head" />}
      {page === null && problem === null && <Loading label="Loading the audit log" />}
      {page?.items.length === 0 && (
        <Empty title="No decisions yet" icon="completed">
          <p>Decisions of people, owners and the outcome-reconciler are listed here.</p>
        </Empty>
      )}
      {page !== null && page.items.length > 0 && (
        <div class="after-head">
          <AuditRows entries={page.items} hasTenant={tenant === null} />
        </div>
      )}
      {page !== null && (page.next !== null || from !== null) && (
        <div class="pager">
          <span>Newest first</span>
          <span>
            {from !== null && <a href={addressOf(path, { tenant })}>First page</a>}{" "}
            {page.next !== null && <a href={addressOf(path, { tenant, from: page.next })}>Next {limit}</a>}
          </span>
        </div>
      )}
    </Main>
  );
}

interface AuditRowsProps {
  readonly entries: readonly AuditLogView[];
  readonly hasTenant: boolean;
}

export function AuditRows({ entries, hasTenant }: AuditRowsProps) {
  const now = overview.value?.now ?? "";
  return (
    <table class="table stacks decisions">
      <thead>
        <tr>
          <th class="sorted" aria-sort="descending">
            When
          </th>
          <th>Who</th>
          <th>Key</th>
          {hasTenant && <th>Tenant</th>}
          <th>Decision and reason</th>
        </tr>
      </thead>
      <tbody>
        {entries.map((entry) => (
          <tr key={entry.id}>
            <td class="when nowrap">{timeText(entry.at, now)}</td>
            <td class="by nowrap">
              <b>{entry.actor}</b>
            </td>
            <td class="key mono">
              {entry.key === "" ? (
                "–"
              ) : (
                <a class="row-link" href={addressOf("records", { q: entry.recordId })}>
                  {entry.key}
                </a>
              )}
            </td>
            {hasTenant && (
              <td class="who">
                <TenantLink tenant={entry.tenant} />
              </td>
            )}
            <td class="statement">
              {sentenceOf(entry)}
              {entry.reason !== null && <span class="quiet"> “{entry.reason}”</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function sentenceOf(entry: AuditLogView): string {
  const text =
    entry.event === "delete_tenant" && entry.key === "" ? "deleted the tenant" : decisionText(entry);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

export function TenantLink({ tenant }: { readonly tenant: string }) {
  return tenant === "" ? <>–</> : <a href={addressOf("tenant", { name: tenant })}>{tenant}</a>;
}
