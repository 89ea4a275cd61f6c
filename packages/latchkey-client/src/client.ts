import { LatchkeyClientError } from "./errors.ts";
import { type Admission, admit, finished, type IntentRecord, isTooOld } from "./intent.ts";
import type { Judgement } from "./judge.ts";
import { keyIn } from "./key.ts";
import { withLock } from "./lock.ts";
import { type ClientOptions, resolveOptions, type Settings } from "./options.ts";
import { asFirstSent, type PreparedRequest, prepareRequest, recordOf } from "./request.ts";
import { sendUntilFinal } from "./send.ts";
import { createSharedCalls } from "./shared-calls.ts";

export interface IntentInit extends RequestInit {
  /**
   * Names one thing the user wants, such as the id of an opened form or of a drafted order. Use a new name for every intent:
   * within `keepDoneMs` a name stands for one request. Without a name the call is the intent: its attempts share a key, and
   * nothing is stored.
   */
  readonly intent?: string | undefined;
}

/** An intent whose outcome is not known. */
export interface PendingIntent {
  readonly intent: string;
  readonly key: string;
  readonly method: string;
  readonly url: string;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** Whether `resume` can send it: its request is stored, and servers still remember its key. */
  readonly isResumable: boolean;
}

export interface Client {
  /**
   * Like the platform's `fetch`, but sends the request again under one key while that is safe. GET, HEAD and OPTIONS are sent
   * unchanged. The body of the request and of the answer are read into memory. Resolves with the last answer, which may be an
   * error.
   *
   * @throws {TypeError} for a malformed request, or an `intent` that is empty or used with GET, HEAD or OPTIONS
   * @throws {LatchkeyClientError} with any of its codes
   * @throws the reason of the signal. The request may have taken effect: its intent stays open
   */
  fetch(input: string | URL | Request, init?: IntentInit): Promise<Response>;
  /**
   * Sends the stored request of an open intent again, for example after a reload.
   *
   * @param init headers (credentials are never stored), signal and settings, merged over the stored request
   * @throws the errors of `fetch`
   */
  resume(intent: string, init?: Omit<RequestInit, "method" | "body">): Promise<Response>;
  /** Intents whose outcome is not known, oldest first. */
  pending(): Promise<readonly PendingIntent[]>;
  /** Forgets an intent: the next call under its name has a new key. Use it only for intents that are known to have ended. */
  forget(intent: string): Promise<void>;
}

/** @throws {TypeError} for an unknown option, or a limit that is not a number above 0 */
export function createClient(options: ClientOptions = {}): Client {
  const settings = resolveOptions(options);
  const { storage, ports } = settings;
  const join = createSharedCalls();
  let isPurged = false;

  async function sendUnnamed(request: PreparedRequest): Promise<Response> {
    const key = keyIn(request.headers, settings.header) ?? settings.newKey();
    const sending = { request, intent: null, key, startedAt: ports.clock.wallMs() };
    const signal = request.signal ?? new AbortController().signal;
    return (await sendUntilFinal(settings, sending, signal)).response;
  }

  async function sendNamed(intent: string, request: PreparedRequest): Promise<Response> {
    const record = await begin(settings, intent, request);
    if (!isPurged) {
      isPurged = true;
      // Not awaited: entries that it leaves are checked and refused like any other old ones.
      void purge(settings).catch(() => {});
    }
    // The key is part of the id: a name that was freed meanwhile stands for another intent.
    return join(`${intent} ${record.key}`, request.signal, (signal) =>
      withLock(settings, { intent, key: record.key, signal }, async () => {
        const { key, startedAt } = record;
        const same = asFirstSent(request, record);
        const sent = await sendUntilFinal(settings, { request: same, intent, key, startedAt }, signal);
        await conclude(settings, intent, key, sent.outcome);
        return sent.response;
      }),
    );
  }

  return {
    async fetch(input, { intent, ...init } = {}) {
      const method = (init.method ?? (input instanceof Request ? input.method : "GET")).toUpperCase();
      const isSafe = ["GET", "HEAD", "OPTIONS"].includes(method);
      if (intent === "" || (isSafe && intent !== undefined)) {
        throw new TypeError("An intent needs a name, and a method such as POST");
      }
      if (isSafe) return settings.fetch(input, init);
      const request = await prepareRequest(input, init);
      request.signal?.throwIfAborted();
      return intent === undefined ? sendUnnamed(request) : sendNamed(intent, request);
    },
    async resume(intent, init = {}) {
      const record = (await storage.list()).find(([name]) => name === intent)?.[1];
      if (record === undefined) throw new LatchkeyClientError("intent-unknown", { intent });
      const { key, doneAt, isKept } = record;
      if (doneAt !== null) throw new LatchkeyClientError("intent-done", { intent, key });
      if (!isKept) throw new LatchkeyClientError("request-not-kept", { intent, key });
      const { url, method, body, type } = record;
      const headers = new Headers(init.headers);
      if (type !== null) headers.set("content-type", type);
      return sendNamed(intent, await prepareRequest(url, { ...init, method, headers, body }));
    },
    async pending() {
      const now = ports.clock.wallMs();
      return (await storage.list())
        .filter(([, { doneAt }]) => doneAt === null)
        .map(([intent, record]) => {
          const { key, method, url, startedAt, isKept } = record;
          const isResumable = isKept && !isTooOld(record, now, settings.keyLifetimeMs);
          return { intent, key, method, url, startedAt, isResumable };
        })
        .sort((left, right) => left.startedAt - right.startedAt);
    },
    forget: (intent) => storage.update(intent, () => undefined),
  };
}

/** Stores the intent before anything is sent. If two tabs begin it at once, the second gets the key of the first. */
async function begin(settings: Settings, intent: string, request: PreparedRequest): Promise<IntentRecord> {
  const { storage, ports, header, keepRequest, keyLifetimeMs } = settings;
  const chosen = keyIn(request.headers, header);
  const draft = recordOf(request, chosen ?? settings.newKey(), keepRequest, ports.clock.wallMs());
  let admission: Admission = { ok: true, record: draft };
  try {
    await storage.update(intent, (stored) => {
      admission = admit(stored, draft, keyLifetimeMs);
      return admission.ok ? admission.record : stored;
    });
  } catch (cause) {
    throw new LatchkeyClientError("storage-failed", { intent, cause });
  }
  return admitted(intent, chosen, admission);
}

function admitted(intent: string, chosen: string | null, admission: Admission): IntentRecord {
  if (!admission.ok) throw new LatchkeyClientError(admission.code, { intent, key: admission.key });
  const { record } = admission;
  if (chosen !== null && record.key !== chosen) {
    throw new LatchkeyClientError("request-changed", { intent, key: record.key });
  }
  return record;
}

/** Forgets a key that is no longer needed; remembers a completed intent, so that it is not executed again. */
async function conclude(
  { storage, ports, onEvent }: Settings,
  intent: string,
  key: string,
  outcome: Judgement["outcome"],
): Promise<void> {
  if (outcome !== "done" && outcome !== "refused") return;
  try {
    await storage.update(intent, (stored) => {
      if (stored?.key !== key) return stored;
      return outcome === "done" ? finished(stored, ports.clock.wallMs()) : undefined;
    });
  } catch (error) {
    // The answer is more important: the intent stays open, and gets the same answer next time.
    onEvent({ type: "storage_failed", intent, key, error });
  }
}

async function purge({ storage, ports, keepDoneMs }: Settings): Promise<void> {
  const before = ports.clock.wallMs() - keepDoneMs;
  const isOver = ({ doneAt }: IntentRecord) => doneAt !== null && doneAt < before;
  const over = (await storage.list()).filter(([, record]) => isOver(record));
  for (const [intent] of over) {
    await storage.update(intent, (stored) => (stored !== undefined && isOver(stored) ? undefined : stored));
  }
}
