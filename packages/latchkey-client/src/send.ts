/** Sends one request until its answer is final, or a limit is reached. */
import { LatchkeyClientError } from "./errors.ts";
import { type Judgement, judge } from "./judge.ts";
import { formatKey } from "./key.ts";
import type { ClientEvent, Settings } from "./options.ts";
import { limited, pause, waitFor } from "./ports.ts";
import type { PreparedRequest } from "./request.ts";

export interface Sending {
  readonly request: PreparedRequest;
  readonly intent: string | null;
  readonly key: string;
  /** When the intent began. */
  readonly startedAt: number;
}

/** The last answer, and what it means for the intent. */
export interface Sent {
  readonly response: Response;
  readonly outcome: Judgement["outcome"];
}

/**
 * @throws {LatchkeyClientError} `no-answer` if the last attempt ended without one
 * @throws the signal's reason
 */
export async function sendUntilFinal(
  settings: Settings,
  { request, intent, key, startedAt }: Sending,
  signal: AbortSignal,
): Promise<Sent> {
  const { ports, limitMs, pauseMs } = settings;
  const { clock, network } = ports;
  let deadline = clock.monotonicMs() + limitMs;
  let acceptedDeadline: number | null = null;
  /** The address at which accepted work is polled; null: the request itself is sent. */
  let statusUrl: string | null = null;
  /** Consecutive failures. */
  let failures = 0;

  const emit = (event: Unaddressed<ClientEvent>) => settings.onEvent({ ...event, intent, key });
  /** Half of it is random. */
  const jittered = (ms: number) => Math.round(ms * (0.5 + 0.5 * ports.random.fraction()));
  const wait = async (reason: "retry" | "accepted", delayMs: number) => {
    emit({ type: "waiting", reason, delayMs });
    await pause(clock, delayMs, signal);
  };
  /** False if a limit is reached: another attempt would be too late or one too many. */
  const pauseAfterFailure = async (retryAfterMs: number | null) => {
    failures += 1;
    const own = jittered(Math.min(settings.longestPauseMs, pauseMs * 2 ** (failures - 1)));
    // The jitter is added to the server's pause, so that its clients do not all return at once.
    const delayMs = retryAfterMs === null ? own : Math.max(own, retryAfterMs + jittered(pauseMs) / 4);
    if (failures >= settings.attempts || clock.monotonicMs() + delayMs > deadline) return false;
    await wait("retry", delayMs);
    return true;
  };

  for (let attempt = 1; ; attempt++) {
    emit({ type: "sent", attempt });
    let response: Response;
    let judgement: Judgement;
    try {
      [response, judgement] = await sendOnce(settings, request, statusUrl, key, startedAt, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!network.isOnline()) {
        const before = clock.monotonicMs();
        emit({ type: "waiting", reason: "offline", delayMs: null });
        await waitFor((done) => network.onceOnline(done), signal);
        deadline += clock.monotonicMs() - before;
      } else if (!(await pauseAfterFailure(null))) {
        throw new LatchkeyClientError("no-answer", { intent, key, cause: error });
      }
      continue;
    }
    const { outcome, retryable, retryAfterMs } = judgement;
    if (outcome === "pending" || (statusUrl !== null && response.status === 202)) {
      const target: string | null = settings.followAccepted
        ? statusUrlOf(response, request.url, statusUrl)
        : null;
      if (target === null) return { response, outcome: "done" };
      const now = clock.monotonicMs();
      acceptedDeadline ??= now + settings.acceptedLimitMs;
      const delayMs = retryAfterMs ?? jittered(2 * pauseMs);
      if (now + delayMs > acceptedDeadline) return { response, outcome: "open" };
      statusUrl = target;
      failures = 0;
      await wait("accepted", delayMs);
      deadline = clock.monotonicMs() + limitMs;
      continue;
    }
    const { status } = response;
    // The resource is gone, or only the request itself resumes the work: send it again, with its key.
    const isStopped = statusUrl !== null && (status === 404 || (retryable && status === 409));
    if (isStopped) statusUrl = null;
    if ((retryable || isStopped) && (await pauseAfterFailure(retryAfterMs))) continue;
    return { response, outcome: isStopped ? "open" : outcome };
  }
}

type Unaddressed<E> = E extends { readonly type: "sent" | "waiting" } ? Omit<E, "intent" | "key"> : never;

/** Null if it is on another origin, which must not get the request's credentials. */
function statusUrlOf(response: Response, url: string, last: string | null): string | null {
  const location = response.headers.get("location") ?? last ?? "";
  if (!URL.canParse(location, url)) return null;
  const { origin, href } = new URL(location, url);
  return origin === new URL(url).origin ? href : null;
}

/** The request, or a GET of `statusUrl` in its place. The limit includes the body. */
async function sendOnce(
  { ports: { clock }, ...settings }: Settings,
  { input, init, method, body, headers: own }: PreparedRequest,
  statusUrl: string | null,
  key: string,
  startedAt: number,
  signal: AbortSignal,
): Promise<[Response, Judgement]> {
  const limit = limited(clock, settings.attemptLimitMs, signal);
  const headers = new Headers(own);
  const common = { ...init, headers, signal: limit.signal };
  try {
    signal.throwIfAborted();
    let sent: Promise<Response>;
    if (statusUrl !== null) {
      for (const [name] of own) if (name.startsWith("content-")) headers.delete(name);
      headers.delete(settings.header);
      const credentials = typeof input === "string" ? {} : { credentials: input.credentials };
      sent = settings.fetch(statusUrl, { ...credentials, ...common, method: "GET" });
    } else {
      headers.set(settings.header, formatKey(key, settings.keySyntax));
      if (settings.firstSentHeader !== null) {
        headers.set(settings.firstSentHeader, new Date(startedAt).toUTCString());
      }
      sent = settings.fetch(input, { ...common, method, body });
    }
    const response = await sent;
    const parsed = await readBody(response);
    const answer = { status: response.status, headers: response.headers, body: parsed };
    return [response, judge(answer, clock.wallMs(), statusUrl !== null)];
  } finally {
    limit.cancel();
  }
}

/**
 * Reads the body completely, next to the caller's copy, so that a connection that is cut in the middle counts as a failed
 * attempt. Returns an error's body parsed, if it is JSON.
 */
async function readBody(response: Response): Promise<unknown> {
  const copy = response.clone();
  if (response.ok) return copy.arrayBuffer();
  const text = await copy.text();
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
