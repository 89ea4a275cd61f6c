/** The requests for one target: under keys, on behalf of callers, recorded for the report. */
import type { SendOptions } from "./checks/check.ts";
import { finalTriesMax, Inconclusive } from "./checks/check.ts";
import type { Exchange } from "./report/report.ts";
import type { ProbeSettings } from "./settings.ts";
import { type HeaderLine, type Intention, intend, requestOf, type Target } from "./target.ts";
import { type Answer, NoAnswer, retryAfterMs } from "./wire/answer.ts";
import type { RequestSender } from "./wire/request-sender.ts";
import type { CutAt, WireRequest } from "./wire/send.ts";

export interface Session {
  intend(body?: string, target?: Target): Intention;
  newKey(): string;
  sendRaw(intention: Intention, keyLines: readonly string[], options?: SendOptions): Promise<Answer>;
  together(
    requests: readonly { readonly intention: Intention; readonly keyLines: readonly string[] }[],
  ): Promise<readonly (Answer | NoAnswer)[]>;
  cut(intention: Intention, keyLines: readonly string[], cutAt: CutAt): Promise<Answer | null>;
  sendUntilFinal(intention: Intention, keyLines: readonly string[], options?: SendOptions): Promise<Answer>;
  count(): Promise<number | null>;
  /** The exchanges since the last call. */
  takeExchanges(): readonly Exchange[];
}

const shownBytesMax = 2_000;
const backOffMaxMs = 2_000;

export function openSession(
  target: Target,
  settings: ProbeSettings,
  sender: RequestSender,
  newKey: () => string,
): Session {
  let intentions = 0;
  let exchanges: Exchange[] = [];

  const wireRequest = (intention: Intention, keyLines: readonly string[], caller: 1 | 2): WireRequest =>
    requestOf(intention, settings.keyHeader, keyLines, credentialsOf(settings, caller));

  async function recorded<T extends Answer | null>(
    about: Pick<Exchange, "caller" | "key" | "cut">,
    intention: Intention,
    delivery: Promise<T>,
  ): Promise<T> {
    try {
      const answer = await delivery;
      exchanges.push(exchangeOf(about, intention, answer));
      return answer;
    } catch (error) {
      if (error instanceof NoAnswer) exchanges.push(exchangeOf(about, intention, error));
      throw error;
    }
  }

  const session: Session = {
    newKey,
    intend(body = target.body, on = target) {
      intentions += 1;
      return intend(on, body, intentions);
    },
    sendRaw(intention, keyLines, { caller = 1 } = {}) {
      const delivery = sender.send(wireRequest(intention, keyLines, caller));
      return recorded({ caller, key: keyLines, cut: null }, intention, delivery);
    },
    cut(intention, keyLines, cutAt) {
      const delivery = sender.cut(wireRequest(intention, keyLines, 1), cutAt);
      return recorded({ caller: 1, key: keyLines, cut: cutAt }, intention, delivery);
    },
    async together(requests) {
      const outcomes = await sender.together(
        requests.map(({ intention, keyLines }) => wireRequest(intention, keyLines, 1)),
      );
      for (const [index, { intention, keyLines }] of requests.entries()) {
        const about = { caller: 1, key: keyLines, cut: null } as const;
        exchanges.push(exchangeOf(about, intention, outcomes[index] ?? null));
      }
      return outcomes;
    },
    sendUntilFinal: (intention, keyLines, options) =>
      sendUntilFinal(settings, () => session.sendRaw(intention, keyLines, options)),
    count: () => countEffects(settings, sender),
    takeExchanges() {
      const taken = exchanges;
      exchanges = [];
      return taken;
    },
  };
  return session;
}

function credentialsOf(
  { credentials, otherCredentials }: ProbeSettings,
  caller: 1 | 2,
): readonly HeaderLine[] {
  if (caller === 1 || otherCredentials === null) return credentials;
  const replaced = new Set(otherCredentials.map(([name]) => name.toLowerCase()));
  return [...credentials.filter(([name]) => !replaced.has(name.toLowerCase())), ...otherCredentials];
}

/** Sends until the answer is no longer "still running", with the pauses that the server asks for. */
async function sendUntilFinal(
  { profile, timing, patienceMs }: ProbeSettings,
  send: () => Promise<Answer>,
): Promise<Answer> {
  const endsAt = timing.now() + patienceMs;
  for (let tries = 1; ; tries++) {
    const answer = await send();
    const left = endsAt - timing.now();
    if (!profile.inProgress.includes(answer.status) || tries === finalTriesMax || left <= 0) return answer;
    const asked = retryAfterMs(answer, timing.today()) ?? Math.min(50 * 2 ** tries, backOffMaxMs);
    await timing.wait(Math.min(asked, left));
  }
}

/** @throws {Inconclusive} if the operator's count does not work: that is not a fault of the routes */
async function countEffects(settings: ProbeSettings, sender: RequestSender): Promise<number | null> {
  const { count, credentials } = settings;
  if (count === null) return null;
  const request = { method: "GET", url: count.url, headers: credentials, body: Buffer.alloc(0) };
  const answer = await sender.send(request).catch((error: unknown) => {
    if (!(error instanceof NoAnswer)) throw error;
    throw new Inconclusive(`the count got no answer: ${error.message}`, { cause: error });
  });
  const counted = answer.status === 200 ? numberAt(answer.body.toString("utf8"), count.pointer) : null;
  if (counted !== null) return counted;
  const where = count.pointer === "" ? "" : ` at ${count.pointer}`;
  throw new Inconclusive(`the count is answered with ${answer.status}, without a number or a list${where}`);
}

/** The number at a JSON pointer, or the length of the array there; null if there is neither. */
function numberAt(text: string, pointer: string): number | null {
  try {
    let value: unknown = JSON.parse(text);
    for (const part of pointer.split("/").slice(1)) {
      const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
      value = typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
    }
    if (Array.isArray(value)) return value.length;
    return typeof value === "number" ? value : null;
  } catch {
    return null;
  }
}

function exchangeOf(
  about: Pick<Exchange, "caller" | "key" | "cut">,
  { method, url, body }: Intention,
  outcome: Answer | NoAnswer | null,
): Exchange {
  const request = { method, url: url.href, ...about, sent: shortText(body) };
  if (outcome === null || outcome instanceof NoAnswer) {
    return { ...request, status: null, headers: [], body: "", problem: outcome?.message ?? null };
  }
  const { status, lines } = outcome;
  const headers = lines.map((line): Exchange["headers"][number] =>
    line[0] === "set-cookie" ? [line[0], "(not shown)"] : line,
  );
  return { ...request, status, headers, body: shortText(outcome.body), problem: null };
}

function shortText(bytes: Buffer): string {
  const text = bytes.subarray(0, shownBytesMax).toString("utf8");
  return bytes.length > shownBytesMax ? `${text}… (${bytes.length} bytes)` : text;
}
