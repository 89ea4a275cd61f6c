/** State shared by all pages: the session, the address, the time, and whether the console answers. */
import { computed, signal } from "@preact/signals";
import type { JobView, OverviewView, Problem, Session } from "../src/wire.ts";

export const base = document.querySelector<HTMLMetaElement>('meta[name="latchkey-base"]')?.content ?? "";

/** Null: not known yet. "out": not signed in. */
export const session = signal<Session | "out" | null>(null);
/** The problem of the last refused request to look, unless signing in would solve it. */
export const outside = signal<Problem | null>(null);
export const overview = signal<OverviewView | null>(null);
export const jobs = signal<readonly JobView[]>([]);
/** Since when the console has not answered; null: it answers. */
export const lostSince = signal<Date | null>(null);
export const notice = signal<Problem | null>(null);
/** Announced to users of screen readers when something changes. */
export const announcement = signal("");
export const paused = signal(false);

export interface Route {
  readonly path: string;
  readonly query: URLSearchParams;
}

function routeNow(): Route {
  const path = location.pathname.slice(base.length).replace(/^\/|\/$/gu, "");
  return { path, query: new URLSearchParams(location.search) };
}

export const route = signal<Route>(routeNow());

export function addressOf(
  path: string,
  query: Readonly<Record<string, string | null | undefined>> = {},
): string {
  const set = Object.entries(query).flatMap(([name, value]) =>
    value ? [[name, value] as [string, string]] : [],
  );
  const search = new URLSearchParams(set).toString();
  return `${base}/${path}${search === "" ? "" : `?${search}`}`;
}

export function go(address: string, replace = false): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  route.value = routeNow();
}

/** Filters stay in the address, so they survive actions, paging, a reload and "back". */
export function setQuery(changes: Readonly<Record<string, string | null>>): void {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  go(addressOf(route.value.path, Object.fromEntries(query)));
}

addEventListener("popstate", () => {
  route.value = routeNow();
});

document.addEventListener("click", (event) => {
  const link = (event.target as Element).closest?.("a[href]");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!(link instanceof HTMLAnchorElement) || !isPlain || link.target !== "") return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(`${base}/`) || url.hash !== "") return;
  event.preventDefault();
  const isElsewhere = url.pathname !== location.pathname;
  go(url.pathname + url.search);
  if (isElsewhere) document.getElementById("main")?.focus();
});

const offset = signal(0);
const tick = signal(Date.now());
setInterval(() => {
  if (!document.hidden) tick.value = Date.now();
}, 1_000);

/** The store's time, from which ages are measured: a browser's clock may be wrong by hours. */
export const now = computed(() => tick.value + offset.value);

export function learnTime(iso: string): void {
  offset.value = Date.parse(iso) - Date.now();
}

export function ageOf(iso: string): number {
  return Math.max(0, now.value - Date.parse(iso));
}
