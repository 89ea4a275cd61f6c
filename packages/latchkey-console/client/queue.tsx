/** Records in one state: filtered by the address, oldest first, with the selected record in the panel. */
import type { Census, Page, QueueQuery, RecordView, Session } from "../src/wire.ts";
import { TenantLink } from "./audit.tsx";
import { BulkRetry, BulkSettle } from "./bulk.tsx";
import { Ages, ageRange, FilterBar, filterQuery, hasFilter } from "./filters.tsx";
import { ageText, countText, plural } from "./format.ts";
import { JobList } from "./jobs.tsx";
import { Empty, Loading, Notice, wordOf } from "./parts.tsx";
import { SettlePanel } from "./settle.tsx";
import { Main } from "./shell.tsx";
import { addressOf, ageOf, go, now, overview, route, setQuery } from "./state.ts";
import { useAnswer } from "./use-answer.ts";

export type QueueState = "unknown" | "pending" | "in_progress" | "retryable";

const limit = 50;

export function QueuePage({ state, who }: { readonly state: QueueState; readonly who: Session }) {
  const { query } = route.value;
  const open = query.get("open");
  const filter = filterQuery(query);
  const range = ageRange(query, useAnchor(query.get("age")));
  const page = useAnswer<Page<RecordView>>("records", {
    state,
    limit: String(limit),
    from: query.get("from"),
    ...filter,
    ...range,
  });
  const matching = useAnswer<Census>("census", { queue: state, ...filter, ...range });
  const ages = useAnswer<Census>("census", { queue: state, ...filter });
  const records = page.value?.items ?? null;
  const close = () => {
    setQuery({ open: null });
    const row = open === null ? null : document.getElementById(`row-${open}`);
    row?.focus();
  };
  const list = (
    <Main>
      <QueueHead state={state} census={matching.value} isFiltered={hasFilter(query)} />
      <FilterBar census={ages.value} query={query} total={totalOf(state)} />
      <Ages census={ages.value} query={query} />
      {who.mayAct && matching.value !== null && matching.value.count > 1 && (
        <BulkRecords state={state} census={matching.value} filter={{ ...filter, ...range }} who={who} />
      )}
      <JobList />
      {page.problem !== null && records === null && <Notice problem={page.problem} class="after-head" />}
      {records === null ? (
        page.problem === null && <Loading label="Loading records" />
      ) : records.length === 0 ? (
        <NothingHere state={state} isFiltered={hasFilter(query)} />
      ) : (
        <Rows records={records} open={open} state={state} />
      )}
      {records !== null && records.length > 0 && (
        <Pager count={records.length} matching={matching.value} next={page.value?.next ?? null} />
      )}
      <KeyHelp state={state} />
    </Main>
  );
  const isOpen = open !== null && state === "unknown";
  return (
    <div class={isOpen ? "with-panel" : ""}>
      {list}
      {isOpen && (
        <SettlePanel key={open} id={open} who={who} onClose={close} onChanged={() => page.reload()} />
      )}
    </div>
  );
}

interface PagerProps {
  /** Records on this page. */
  readonly count: number;
  readonly matching: Census | null;
  /** Where the next page begins; null: this is the last one. */
  readonly next: string | null;
}

function Pager({ count, matching, next }: PagerProps) {
  const { query, path } = route.value;
  return (
    <div class="pager">
      <span>
        {plural(count, "record")} on this page
        {matching !== null && ` of ${countText(matching.count, matching.more)}`}, oldest first
      </span>
      <span>
        {query.get("from") !== null && (
          <a href={addressOf(path, { ...Object.fromEntries(query), from: null, open: null })}>First page</a>
        )}{" "}
        {next !== null && (
          <a href={addressOf(path, { ...Object.fromEntries(query), from: next, open: null })}>Next {limit}</a>
        )}
      </span>
    </div>
  );
}

function KeyHelp({ state }: { readonly state: QueueState }) {
  return (
    <p class="keys">
      <span>
        <kbd>j</kbd> <kbd>k</kbd> move
      </span>
      <span>
        <kbd>↵</kbd> open
      </span>
      {state === "unknown" && (
        <span>
          <kbd>s</kbd> settle
        </span>
      )}
      <span>
        <kbd>esc</kbd> close
      </span>
    </p>
  );
}

interface BulkRecordsProps {
  readonly state: QueueState;
  readonly census: Census;
  readonly filter: Omit<QueueQuery, "queue">;
  readonly who: Session;
}

/** Pending and running records continue on their own; there is no action for them. */
function BulkRecords({ state, filter, ...others }: BulkRecordsProps) {
  if (state === "unknown") return <BulkSettle filter={{ queue: state, ...filter }} {...others} />;
  if (state === "retryable") return <BulkRetry filter={{ queue: state, ...filter }} {...others} />;
  return null;
}

/** Ages change; the bounds of a selected age stay as they were when it was selected, to the minute. */
function useAnchor(age: string | null): number {
  return age === null ? 0 : Math.floor(now.value / 60_000) * 60_000;
}

function totalOf(state: QueueState): number | null {
  const all = overview.value;
  if (all === null) return null;
  return all[state === "in_progress" ? "inProgress" : state].count;
}

function QueueHead({
  state,
  census,
  isFiltered,
}: {
  readonly state: QueueState;
  readonly census: Census | null;
  readonly isFiltered: boolean;
}) {
  return (
    <header class="head">
      <h1>{census === null ? wordOf(state) : verdictOf(state, census, isFiltered)}</h1>
      <p class="lead">{leads[state]}</p>
    </header>
  );
}

const leads: Readonly<Record<QueueState, string>> = {
  unknown:
    "They may or may not have happened. Their keys stay locked, and their retries get 409, until the outcome-reconciler or a person settles each.",
  pending: "They were accepted, and wait for a worker. They need no action.",
  in_progress: "An attempt owns each of them until its lease ends. They need no action.",
  retryable: "They are not in doubt. A worker, or the next request with their key, continues them.",
};

/** A cause counts as common from four fifths of the records. */
function verdictOf(
  state: QueueState,
  { count, more, causes, oldestAt }: Census,
  isFiltered: boolean,
): string {
  const match = isFiltered ? " that match" : "";
  if (count === 0)
    return isFiltered ? `No matching records are ${wordOf(state)}` : `No records are ${wordOf(state)}`;
  const amount = countText(count, more);
  const [first] = causes;
  if (state === "unknown") {
    const outcomes = count === 1 ? `1 outcome${match} is unknown` : `${amount} outcomes${match} are unknown`;
    const isCommon = first !== undefined && causes.length > 1 && first.count >= count * 0.8;
    return isCommon ? `${outcomes}. ${countText(first.count)} of them have the same cause.` : outcomes;
  }
  const records = count === 1 ? "1 record is" : `${amount} records are`;
  const oldest = oldestAt === null ? "" : `, the oldest for ${ageText(ageOf(oldestAt))}`;
  return `${records} ${wordOf(state)}${oldest}`;
}

function NothingHere({ state, isFiltered }: { readonly state: QueueState; readonly isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <Empty title={`No matching records are ${wordOf(state)}`}>
        <p>
          <button class="button" type="button" onClick={() => go(addressOf(route.value.path))}>
            Remove all filters
          </button>
        </p>
      </Empty>
    );
  }
  return state === "unknown" ? (
    <Empty title="No records are unknown" icon="completed">
      <p>All outcomes are known. Unknown ones would be listed here.</p>
    </Empty>
  ) : (
    <Empty title={`No records are ${wordOf(state)}`}>
      <p>Records are listed here while they are {wordOf(state)}.</p>
    </Empty>
  );
}

interface RowsProps {
  readonly records: readonly RecordView[];
  readonly open: string | null;
  readonly state: QueueState;
}

/** A column is omitted if a filter makes all its values equal. */
function Rows({ records, open, state }: RowsProps) {
  const { query } = route.value;
  const has = (name: string) => query.get(name) === null;
  const hasWhy = state === "unknown" || state === "retryable";
  return (
    <table class="table stacks queue no-tick after-head">
      <thead>
        <tr>
          <th class="sorted" aria-sort="descending">
            Age
          </th>
          <th>Key</th>
          {has("tenant") && <th>Tenant</th>}
          {has("operation") && <th>Operation</th>}
          {hasWhy && has("errorCode") && <th>Why</th>}
          {state === "unknown" && <th>Next look-up</th>}
          {state === "in_progress" && <th>Lease ends</th>}
        </tr>
      </thead>
      <tbody>
        {records.map((record) => (
          <tr
            key={record.id}
            id={`row-${record.id}`}
            tabIndex={0}
            aria-selected={record.id === open ? true : undefined}
          >
            <td class="age">{ageText(ageOf(record.createdAt))}</td>
            <td class="key mono">
              <a
                class="row-link"
                href={
                  state === "unknown"
                    ? addressOf("unknown", { ...Object.fromEntries(query), open: record.id })
                    : addressOf(`record/${record.id}`)
                }
              >
                {record.key}
              </a>
            </td>
            {has("tenant") && (
              <td class="who">
                <TenantLink tenant={record.tenant} />
              </td>
            )}
            {has("operation") && <td class="who2 mono">{record.operation}</td>}
            {hasWhy && has("errorCode") && (
              <td class="why">
                <code>{record.lastErrorCode ?? "–"}</code>
              </td>
            )}
            {state === "unknown" && <td class="more quiet nowrap">{lookUpText(record)}</td>}
            {state === "in_progress" && <td class="more quiet nowrap">{leaseText(record)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function lookUpText({ reconcileAfter }: RecordView): string {
  if (reconcileAfter == null) return "none: waits for a person";
  const left = Date.parse(reconcileAfter) - now.value;
  return left <= 0 ? "due now" : `in ${ageText(left)}`;
}

function leaseText({ leaseEndsAt }: RecordView): string {
  if (leaseEndsAt === undefined) return "";
  const left = Date.parse(leaseEndsAt) - now.value;
  return left <= 0 ? `ended ${ageText(-left)} ago` : `in ${ageText(left)}`;
}
