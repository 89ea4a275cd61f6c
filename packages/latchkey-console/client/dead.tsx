/** Dead letters grouped by cause: a person can act on a group, or open single letters. */
import type { Cause } from "latchkey/operator";
import { useState } from "preact/hooks";
import type {
  Census,
  DeadEffectView,
  Inspected,
  MessageView,
  Page,
  QueueQuery,
  Session,
} from "../src/wire.ts";
import { TenantLink } from "./audit.tsx";
import { Bulk, type BulkChoice } from "./bulk.tsx";
import { DecideDead } from "./decide.tsx";
import { FilterBar, filterQuery, hasFilter } from "./filters.tsx";
import { ageText, countText, plural } from "./format.ts";
import { JobList } from "./jobs.tsx";
import { Empty, Json, Loading, Notice } from "./parts.tsx";
import { Main } from "./shell.tsx";
import { addressOf, ageOf, overview, route, setQuery } from "./state.ts";
import { useAnswer } from "./use-answer.ts";

export function DeadPage({ who }: { readonly who: Session }) {
  const { query } = route.value;
  const filter = filterQuery(query);
  const found = useAnswer<Census>("census", { queue: "dead", ...filter });
  const census = found.value;
  return (
    <Main>
      <header class="head">
        <h1>{census === null ? "Dead letters" : verdictOf(census, hasFilter(query))}</h1>
        <p class="lead">
          They ran out of tries, or must not be retried automatically. Nothing here is sent until a person
          decides.
        </p>
      </header>
      <FilterBar census={census} query={query} total={overview.value?.dead.count ?? null} />
      <JobList />
      {found.problem !== null && census === null && <Notice problem={found.problem} class="after-head" />}
      {census === null && found.problem === null && <Loading label="Loading dead letters" />}
      {census?.count === 0 && (
        <Empty title={hasFilter(query) ? "No dead letter matches" : "Nothing to decide"} icon="completed">
          <p>Effects and messages that run out of tries are listed here.</p>
        </Empty>
      )}
      {census !== null && census.count > 0 && (
        <section class="section" aria-label="By cause">
          {census.causes.map((cause) => (
            <CauseGroup
              key={idOf(cause)}
              cause={cause}
              who={who}
              tenant={query.get("tenant")}
              reload={found.reload}
            />
          ))}
        </section>
      )}
    </Main>
  );
}

function verdictOf({ count, more, causes }: Census, isFiltered: boolean): string {
  if (count === 0) return isFiltered ? "No dead letter matches" : "No dead letters";
  const letters = count === 1 ? "1 dead letter" : `${countText(count, more)} dead letters`;
  const [first] = causes;
  if (causes.length === 1 && count > 1) return `${letters}, all with one cause`;
  const isCommon = first !== undefined && first.count > 1 && first.count >= count * 0.8;
  return isCommon ? `${letters}. ${countText(first.count)} of them have the same cause.` : letters;
}

function idOf({ kind, operation, name, errorCode }: Cause): string {
  return JSON.stringify([kind, operation, name, errorCode]);
}

interface GroupProps {
  readonly cause: Cause;
  readonly who: Session;
  readonly tenant: string | null;
  readonly reload: () => void;
}

function CauseGroup({ cause, who, tenant, reload }: GroupProps) {
  const id = idOf(cause);
  const isOpen = route.value.query.get("cause") === id;
  const { kind, operation, name, errorCode, count } = cause;
  const filter: QueueQuery = {
    queue: kind === "message" ? "message" : "effect",
    operation,
    ...(kind === "effect" && name !== null && { effect: name }),
    ...(errorCode !== null && { errorCode }),
    ...(tenant !== null && { tenant }),
  };
  return (
    <article class="cause">
      <header>
        <h2>
          <button
            class="fold"
            type="button"
            aria-expanded={isOpen}
            onClick={() => setQuery({ cause: isOpen ? null : id, from: null })}
          >
            <svg class="chev" viewBox="0 0 10 10" aria-hidden="true">
              <path d="M3 1.5 6.5 5 3 8.5" />
            </svg>
            <span class="n">
              {countText(count)}
              <small>{count === 1 ? kind : `${kind}s`}</small>
            </span>
            <span>
              <b class="mono">{kind === "effect" ? name : operation}</b> <span class="faint">·</span>{" "}
              <code>{errorCode}</code>
              <br />
              <span class="quiet">{cause.reason}</span>
            </span>
          </button>
        </h2>
        <span class="when small quiet">
          oldest <b>{ageText(ageOf(cause.oldestAt))}</b>
          <br />
          {count === 1 ? "only one" : `newest ${ageText(ageOf(cause.newestAt))}`}
        </span>
        <span class="acts">{who.mayAct && <GroupActions cause={cause} filter={filter} who={who} />}</span>
      </header>
      {isOpen && (
        <div class="inside">
          <Letters filter={filter} cause={cause} who={who} reload={reload} />
        </div>
      )}
    </article>
  );
}

const redriveKept: BulkChoice = { id: "kept", label: "Redrive", action: { kind: "redrive", doubt: "kept" } };
const discardAll: BulkChoice = { id: "discard", label: "Discard", action: { kind: "discard" } };

/** Letters in doubt have to be checked one by one: a redrive means something different for each. */
function GroupActions({
  cause,
  filter,
  who,
}: {
  readonly cause: Cause;
  readonly filter: QueueQuery;
  readonly who: Session;
}) {
  const { kind, errorCode, count } = cause;
  const amount = countText(count);
  const isLetter = kind === "message";
  const canRedrive = errorCode !== "closed-downstream" && (!isLetter || who.abilities.republish);
  const what = isLetter
    ? "Each message is published again. Its inbox runs it as new unless it has already run."
    : "Each is due at once, under the same downstream key. Doubt about an earlier send remains.";
  return (
    <>
      {canRedrive && (
        <Bulk
          title={`Redrive ${amount}`}
          button={`Redrive ${amount}…`}
          choices={[redriveKept]}
          filter={filter}
          who={who}
        >
          {what}
        </Bulk>
      )}
      <Bulk title={`Discard ${amount}`} button="Discard…" choices={[discardAll]} filter={filter} who={who}>
        {isLetter
          ? "Their letters are removed, including their content."
          : "Each counts as delivered, without a send: it has happened, or never will."}
      </Bulk>
    </>
  );
}

interface LettersProps {
  readonly filter: QueueQuery;
  readonly cause: Cause;
  readonly who: Session;
  readonly reload: () => void;
}

const limit = 20;

function Letters({ filter, cause, who, reload }: LettersProps) {
  const { query } = route.value;
  const { queue, ...only } = filter;
  const page = useAnswer<Page<DeadEffectView | MessageView>>("dead", {
    kind: queue,
    limit: String(limit),
    from: query.get("from"),
    ...only,
  });
  const [open, setOpen] = useState<string | null>(null);
  if (page.value === null)
    return page.problem === null ? <Loading label="Loading" /> : <Notice problem={page.problem} />;
  const changed = () => {
    page.reload();
    reload();
  };
  return (
    <>
      <table class="table stacks queue no-tick">
        <thead>
          <tr>
            <th class="sorted" aria-sort="descending">
              {cause.kind === "message" ? "Dead for" : "Age"}
            </th>
            <th>Key</th>
            <th>Tenant</th>
            <th>Tries</th>
            <th>Decide</th>
          </tr>
        </thead>
        <tbody>
          {page.value.items.map((letter) => (
            <Letter
              key={letter.id}
              letter={letter}
              isOpen={open === letter.id}
              onOpen={() => setOpen(open === letter.id ? null : letter.id)}
            />
          ))}
        </tbody>
      </table>
      {open !== null && (
        <OneLetter
          key={open}
          letter={page.value.items.find(({ id }) => id === open) ?? null}
          who={who}
          onChanged={changed}
        />
      )}
      <div class="pager">
        <span>{plural(page.value.items.length, "letter")} on this page, oldest first</span>
        {page.value.next !== null && (
          <button class="link" type="button" onClick={() => setQuery({ from: page.value?.next ?? null })}>
            Next {limit}
          </button>
        )}
      </div>
    </>
  );
}

function Letter({
  letter,
  isOpen,
  onOpen,
}: {
  readonly letter: DeadEffectView | MessageView;
  readonly isOpen: boolean;
  readonly onOpen: () => void;
}) {
  const isMessage = "diedAt" in letter;
  const tries = isMessage
    ? `${letter.starts} started, ${letter.failures} failed`
    : `${letter.sends} sent, ${letter.returns} returned`;
  return (
    <tr tabIndex={0}>
      <td class="age">{ageText(ageOf(isMessage ? letter.diedAt : letter.createdAt))}</td>
      <td class="key mono">
        {isMessage ? (
          (letter.key ?? "–")
        ) : (
          <a class="row-link" href={addressOf(`record/${letter.recordId}`)}>
            {letter.key}
          </a>
        )}
      </td>
      <td class="who">
        <TenantLink tenant={letter.tenant ?? ""} />
      </td>
      <td class="sum quiet nowrap">{tries}</td>
      <td class="more">
        <button class="link" type="button" aria-expanded={isOpen} onClick={onOpen}>
          {isOpen ? "Close" : "Decide"}
        </button>
      </td>
    </tr>
  );
}

interface OneProps {
  readonly letter: DeadEffectView | MessageView | null;
  readonly who: Session;
  readonly onChanged: () => void;
}

function OneLetter({ letter, who, onChanged }: OneProps) {
  const isMessage = letter !== null && "diedAt" in letter;
  const name = letter === null ? "" : isMessage ? letter.id : letter.recordId;
  const found = useAnswer<Inspected>("inspect", { name });
  if (letter === null) return null;
  if (found.value === null)
    return found.problem === null ? <Loading label="Loading" /> : <Notice problem={found.problem} />;
  const { value } = found;
  const changed = () => {
    found.reload();
    onChanged();
  };
  if (value.kind === "message") {
    return (
      <div class="box after-head">
        <DecideDead
          name={value.message.operation}
          death={value.message.id}
          choices={value.choices}
          who={who}
          onChanged={changed}
        />
        <pre class="answer">
          <Json value={value.payload} />
        </pre>
      </div>
    );
  }
  if (value.kind === "record") {
    const { report } = value;
    const own = report.deadChoices.filter(({ death }) => death.startsWith(letter.id));
    return (
      <div class="box after-head">
        {own.map(({ death, choices }) => (
          <DecideDead
            key={death}
            name={"effect" in letter ? letter.effect : ""}
            death={death}
            choices={choices}
            who={who}
            onChanged={changed}
          />
        ))}
        {own.length === 0 && <p class="quiet">It is no longer dead.</p>}
      </div>
    );
  }
  return (
    <p class="quiet after-head">
      Its record is gone. Decide for the whole group, or with `latchkey redrive` and `latchkey discard`.
    </p>
  );
}
