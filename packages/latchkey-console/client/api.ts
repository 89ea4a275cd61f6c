/** Requests to the handler. Nothing here throws: the result is a value, or a problem described in sentences. */
import type { JobView, OverviewView, Problem, Session } from "../src/wire.ts";
import { base, jobs, learnTime, lostSince, outside, overview, paused, session } from "./state.ts";

export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: Problem; readonly body: unknown };

const limitMs = 15_000;

export async function ask<T>(
  path: string,
  query: Readonly<Record<string, string | null | undefined>> = {},
): Promise<Answer<T>> {
  const set = Object.entries(query).flatMap(([name, value]) =>
    value ? [[name, value] as [string, string]] : [],
  );
  const search = new URLSearchParams(set).toString();
  return send<T>(`${path}${search === "" ? "" : `?${search}`}`, { method: "GET" });
}

export async function act<T>(path: string, fields: object, method = "POST"): Promise<Answer<T>> {
  return send<T>(path, {
    method,
    body: JSON.stringify(fields),
    headers: { "Content-Type": "application/json", "X-Latchkey-Console": "1" },
  });
}

async function send<T>(path: string, init: RequestInit): Promise<Answer<T>> {
  let response: Response;
  let body: unknown;
  try {
    response = await fetch(`${base}/api/${path}`, { ...init, signal: AbortSignal.timeout(limitMs) });
    body = await response.json();
  } catch {
    lostSince.value ??= new Date();
    const detail =
      init.method === "GET"
        ? "The console does not answer. The service itself may be running normally."
        : "It is not known whether the action was carried out. You can safely try it again.";
    return { ok: false, problem: { title: "Not connected.", detail }, body: null };
  }
  lostSince.value = null;
  if (response.ok) return { ok: true, value: body as T };
  if (response.status === 401) signedOut(body);
  return { ok: false, problem: problemOf(body), body };
}

function signedOut(body: unknown): void {
  const { signIn } = (body ?? {}) as { readonly signIn?: unknown };
  session.value = signIn === true ? "out" : null;
  if (signIn !== true) outside.value = problemOf(body);
}

function problemOf(body: unknown): Problem {
  const { title, detail } = (body ?? {}) as Partial<Problem>;
  return {
    title: typeof title === "string" ? title : "The console's answer was not understood.",
    detail:
      typeof detail === "string" ? detail : "A proxy between this page and the console may have answered.",
  };
}

export async function readSession(): Promise<void> {
  const answer = await ask<Session>("session");
  if (answer.ok) session.value = answer.value;
  outside.value = answer.ok || session.value === "out" ? null : answer.problem;
}

export async function readDepths(): Promise<void> {
  const answer = await ask<{ readonly overview: OverviewView; readonly jobs: readonly JobView[] }>("depths");
  if (!answer.ok) {
    outside.value = lostSince.value === null && session.value !== "out" ? answer.problem : null;
    return;
  }
  outside.value = null;
  learnTime(answer.value.overview.now);
  overview.value = answer.value.overview;
  jobs.value = answer.value.jobs;
}

const pollMs = 5_000;

/**
 * Calls `read` now and then every five seconds, while the page is visible and not paused. Returns a function that stops it.
 */
export function poll(read: () => void): () => void {
  read();
  const timer = setInterval(() => {
    if (!document.hidden && !paused.value) read();
  }, pollMs);
  const seen = () => {
    if (!document.hidden && !paused.value) read();
  };
  document.addEventListener("visibilitychange", seen);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", seen);
  };
}
