/** Navigation, tabs, and what is above every page. */
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { DepthView, Session } from "../src/wire.ts";
import { act, poll, readDepths, readSession } from "./api.ts";
import { ageText, clockText, countText } from "./format.ts";
import { Icon, Notice, StateIcon, type StateName } from "./parts.tsx";
import {
  addressOf,
  ageOf,
  announcement,
  go,
  lostSince,
  notice,
  outside,
  overview,
  route,
  session,
} from "./state.ts";
import { isDark, toggleTheme } from "./theme.ts";

export function Shell({ who, children }: { readonly who: Session; readonly children: ComponentChildren }) {
  useEffect(() => poll(() => void readDepths()), []);
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <div class="app">
        <header class="rail">
          <a class="brand" href={addressOf("")}>
            <Icon name="key" size={18} />
            Latchkey
          </a>
          <div class="where">{who.title}</div>
          <Find />
          <Nav who={who} />
          <Me who={who} />
        </header>
        {children}
        <Tabs />
      </div>
      {notice.value !== null && (
        <Notice problem={notice.value} class="toast">
          <button class="button" type="button" onClick={() => (notice.value = null)}>
            Close
          </button>
        </Notice>
      )}
      <p class="visually-hidden" role="status" aria-live="polite">
        {announcement}
      </p>
    </>
  );
}

/** The frame of a page: it keeps its content while the console or its store does not answer. */
export function Main({ children }: { readonly children: ComponentChildren }) {
  return (
    <main class="main" id="main" tabIndex={-1}>
      {lostSince.value !== null ? (
        <Notice
          class="banner"
          problem={{
            title: `Not connected since ${clockText(lostSince.value.toISOString())}. The data below is from that time.`,
            detail:
              "The console does not answer. The service itself may be running normally. The page tries again every 5 s.",
          }}
        >
          <button class="button" type="button" onClick={() => void readDepths()}>
            Try now
          </button>
        </Notice>
      ) : (
        outside.value !== null && <Notice class="banner" problem={outside.value} />
      )}
      {children}
    </main>
  );
}

function Find() {
  return (
    <search>
      <form
        class="find"
        onSubmit={(event) => {
          event.preventDefault();
          const input = event.currentTarget.elements.namedItem("find") as HTMLInputElement;
          if (input.value.trim() !== "") go(addressOf("records", { q: input.value.trim() }));
        }}
      >
        <label class="visually-hidden" for="find">
          Find by record id, downstream key or message id
        </label>
        <input
          id="find"
          name="find"
          type="search"
          placeholder="Record id, lk_…"
          autocomplete="off"
          spellcheck={false}
        />
        <kbd>/</kbd>
      </form>
    </search>
  );
}

const queues = [
  { path: "pending", state: "pending", label: "Pending", of: "pending" },
  { path: "in-progress", state: "in_progress", label: "In progress", of: "inProgress" },
  { path: "retryable", state: "retryable", label: "Retryable", of: "retryable" },
] as const;

function Nav({ who }: { readonly who: Session }) {
  const all = overview.value;
  return (
    <nav class="nav" aria-label="Console">
      <NavLink path="" label="Overview" />
      <h2 id="n-person">Waiting for a person</h2>
      <ul aria-labelledby="n-person">
        <li>
          <NavLink path="unknown" label="Unknown" state="unknown" depth={all?.unknown ?? null} waits />
        </li>
        <li>
          <NavLink path="dead" label="Dead letters" state="dead" depth={all?.dead ?? null} waits />
        </li>
      </ul>
      <h2 id="n-itself">Needs no action</h2>
      <ul aria-labelledby="n-itself">
        {queues.map(({ path, state, label, of }) => (
          <li key={path}>
            <NavLink path={path} label={label} state={state} depth={all?.[of] ?? null} />
          </li>
        ))}
      </ul>
      <h2 id="n-look">Look up</h2>
      <ul aria-labelledby="n-look">
        <li>
          <NavLink path="records" label="Records" />
        </li>
        {who.abilities.auditLog && (
          <li>
            <NavLink path="audit" label="Audit log" />
          </li>
        )}
      </ul>
    </nav>
  );
}

interface NavLinkProps {
  readonly path: string;
  readonly label: string;
  readonly state?: StateName;
  readonly depth?: DepthView | null;
  readonly waits?: boolean;
}

function NavLink({ path, label, state, depth = null, waits = false }: NavLinkProps) {
  const isHere = route.value.path === path;
  const isNone = depth === null || depth.count === 0;
  const kind = state === undefined ? "plain" : isNone ? "none" : waits ? "waits" : "";
  return (
    <a class={kind} href={addressOf(path)} aria-current={isHere ? "page" : undefined}>
      {state !== undefined && <StateIcon state={state} none={isNone} />}
      <span>{label}</span>
      {state !== undefined && (
        <span class="count">{depth === null ? "" : countText(depth.count, depth.more)}</span>
      )}
      {waits && depth !== null && (
        <span class="age">
          {depth.oldestAt === null ? "none waiting" : `oldest ${ageText(ageOf(depth.oldestAt))}`}
        </span>
      )}
    </a>
  );
}

function Me({ who }: { readonly who: Session }) {
  const signOut = async () => {
    await act("session", {}, "DELETE");
    session.value = "out";
    void readSession();
  };
  return (
    <div class="me">
      <div class="line">
        <span>
          Signed in as <strong>{who.operator}</strong>
        </span>
        <button class="link" type="button" onClick={toggleTheme}>
          {isDark.value ? "Light" : "Dark"}
        </button>
      </div>
      <div class="line">
        <span>{who.mayAct ? "May settle and redrive" : "Read-only"}</span>
        {who.canSignOut && (
          <button class="link" type="button" onClick={signOut}>
            Sign out
          </button>
        )}
      </div>
    </div>
  );
}

function Tabs() {
  const all = overview.value;
  const here = route.value.path;
  const tab = (path: string, label: string, icon: ComponentChildren) => (
    <a href={addressOf(path)} aria-current={here === path ? "page" : undefined}>
      <b>{icon}</b>
      {label}
    </a>
  );
  const counted = (state: "unknown" | "dead", depth: DepthView | undefined) => (
    <>
      {depth !== undefined && depth.count > 0 && <StateIcon state={state} />}
      {depth === undefined ? "–" : countText(depth.count)}
    </>
  );
  const glyph = (d: string, circle = false) => (
    <svg viewBox="0 0 18 18" aria-hidden="true">
      {circle && <circle cx="8" cy="8" r="5" />}
      <path d={d} />
    </svg>
  );
  return (
    <nav class="tabs" aria-label="Console, short">
      {tab("", "Overview", glyph("M2 15.5h14M4 12.5V9m5 3.5v-9m5 9V6.5"))}
      {tab("unknown", "Unknown", counted("unknown", all?.unknown))}
      {tab("dead", "Dead", counted("dead", all?.dead))}
      {tab("records", "Records", glyph("m12 12 4 4", true))}
      {tab("more", "More", glyph("M3 5h12M3 9h12M3 13h12"))}
    </nav>
  );
}

/** On a phone: the parts of the navigation that the tabs do not have. */
export function More({ who }: { readonly who: Session }) {
  const all = overview.value;
  return (
    <Main>
      <header class="head">
        <h1>More</h1>
      </header>
      <nav class="more-list" aria-label="Other queues">
        {queues.map(({ path, state, label, of }) => (
          <a key={path} href={addressOf(path)}>
            <span>
              <StateIcon state={state} /> {label}
            </span>
            <span>{all === null ? "" : countText(all[of].count, all[of].more)}</span>
          </a>
        ))}
        {who.abilities.auditLog && (
          <a href={addressOf("audit")}>
            <span>Audit log</span>
          </a>
        )}
      </nav>
      <Me who={who} />
    </Main>
  );
}
