/** One run: every target, with every selected check. */
import { allChecks } from "./checks/all.ts";
import { type Baseline, type Check, type CheckContext, Inconclusive, say } from "./checks/check.ts";
import { marksOf } from "./compare.ts";
import { type Fault, makeFault } from "./faults.ts";
import { newUuid } from "./ports.ts";
import type { CheckReport, Report, TargetReport, Verdict } from "./report/report.ts";
import { openSession, type Session } from "./session.ts";
import { answerLimitBytes, type ProbeSettings } from "./settings.ts";
import type { Target } from "./target.ts";
import { ownVersion } from "./version.ts";
import { type Answer, isAccepted, NoAnswer } from "./wire/answer.ts";
import { createRequestSender, RequestLimitReached } from "./wire/request-sender.ts";

export interface ProbeEvents {
  /** Called when a target has been judged. */
  readonly onTarget?: (target: TargetReport) => void;
}

/** Sends, judges and reports. Behaviour of the server is in the report and never throws. */
export async function runProbe(settings: ProbeSettings, events: ProbeEvents = {}): Promise<Report> {
  const { timing } = settings;
  const startedAt = new Date(timing.today()).toISOString();
  const began = timing.now();
  const sender = createRequestSender({
    ...settings,
    answerLimitBytes,
    allowedOrigins: namedOrigins(settings),
  });
  const targets: TargetReport[] = [];
  for (const target of settings.targets) {
    const session = openSession(target, settings, sender, newUuid);
    const report = await judgeTarget(target, settings, session, sender.sent);
    targets.push(report);
    events.onTarget?.(report);
  }
  return {
    tool: "latchkey-probe",
    version: ownVersion(),
    profile: settings.profile.name,
    startedAt,
    durationMs: Math.round(timing.now() - began),
    requests: sender.sent(),
    targets,
    leftOut: settings.leftOut,
    summary: summaryOf(targets),
  };
}

/** The request sender refuses all other origins. */
function namedOrigins({ targets, count }: ProbeSettings): ReadonlySet<string> {
  const urls = targets.flatMap(({ url, failing }) => [url, ...(failing === null ? [] : [failing.url])]);
  if (count !== null) urls.push(count.url);
  return new Set(urls.map(({ origin }) => origin));
}

function summaryOf(targets: readonly TargetReport[]): Report["summary"] {
  const checks = targets.flatMap((target) => target.checks);
  const having = (verdict: Verdict) => checks.filter((check) => check.verdict === verdict).length;
  return {
    passed: having("passed"),
    faulty: having("faulty"),
    inconclusive: having("inconclusive"),
    skipped: having("skipped"),
    faults: checks.reduce((sum, { faults }) => sum + faults.length, 0),
    unjudgedTargets: targets.filter(({ unjudged }) => unjudged !== null).length,
  };
}

class Unjudgeable extends Error {}

async function judgeTarget(
  target: Target,
  settings: ProbeSettings,
  session: Session,
  sent: () => number,
): Promise<TargetReport> {
  const about = { name: target.name, url: target.url.href };
  const checks: CheckReport[] = [];
  try {
    const baseline = await findBaseline(settings, session);
    session.takeExchanges();
    const chosen = allChecks.filter(({ name }) => settings.checks.includes(name));
    for (const check of chosen) {
      const obstacle = lacksReplays(check, checks) ?? check.obstacle(target, settings);
      if (obstacle !== null) checks.push(skipped(check, obstacle));
      else checks.push(await makeCheck(check, { target, settings, session, baseline, sent }));
    }
    return { ...about, unjudged: null, toldApartBy: [...baseline.marks], checks, exchanges: [] };
  } catch (error) {
    const unjudged = unjudgedReason(error);
    return { ...about, unjudged, toldApartBy: [], checks, exchanges: session.takeExchanges() };
  }
}

const withoutReplays: readonly string[] = ["ran-twice", "retry-refused", "retry-failed"];

/** A fault at the root is reported only once. */
function lacksReplays({ needsReplays }: Check, made: readonly CheckReport[]): string | null {
  if (!needsReplays) return null;
  const root = made.flatMap(({ faults }) => faults).find(({ code }) => withoutReplays.includes(code));
  return root === undefined ? null : `${root.title.toLowerCase()}, so this shows nothing new`;
}

function unjudgedReason(error: unknown): string {
  if (error instanceof NoAnswer) return `no answer: ${error.message}`;
  if (error instanceof Unjudgeable || error instanceof RequestLimitReached) return error.message;
  throw error;
}

/** The maximum number of requests of the baseline. */
export const baselineRequestsMax = 4;

/** Three requests under different keys, which every server must accept. */
async function findBaseline(settings: ProbeSettings, session: Session): Promise<Baseline> {
  const written = settings.keySyntax === "quoted" ? "quoted" : "bare";
  let keyForm: Baseline["keyForm"] = written;
  let answer = await session.sendRaw(session.intend(), [writeKey(session.newKey(), keyForm)]);
  if (answer.status === 400 && settings.keySyntax === "auto") {
    keyForm = "quoted";
    answer = await session.sendRaw(session.intend(), [writeKey(session.newKey(), keyForm)]);
  }
  if (!isAccepted(answer)) throw new Unjudgeable(refusalOf(answer));
  const answers = [answer];
  while (answers.length < 3) {
    const next = await session.sendRaw(session.intend(), [writeKey(session.newKey(), keyForm)]);
    if (!isAccepted(next)) {
      const hint = "if it is accepted only once, put {{uuid}} or {{n}} into the body";
      throw new Unjudgeable(
        `the first request is accepted, the same under a new key is answered with ${say(next)}; ${hint}`,
      );
    }
    answers.push(next);
  }
  return { marks: marksOf(answers), keyForm, answer };
}

function refusalOf(answer: Answer): string {
  const { status } = answer;
  const to = answer.lines.find(([name]) => name === "location")?.[1];
  if (status >= 300 && status < 400) {
    return `the request is answered with ${status} to ${to ?? "nowhere"}; redirects are not followed, so use that address`;
  }
  const text = answer.body.subarray(0, 300).toString("utf8").trim();
  return `the request is not accepted under a new key: ${say(answer)}${text === "" ? "" : `: ${text}`}`;
}

function writeKey(key: string, form: Baseline["keyForm"]): string {
  return form === "quoted" ? `"${key}"` : key;
}

interface Surroundings {
  readonly target: Target;
  readonly settings: ProbeSettings;
  readonly session: Session;
  readonly baseline: Baseline;
  readonly sent: () => number;
}

async function makeCheck(check: Check, surroundings: Surroundings): Promise<CheckReport> {
  const { settings, session, sent } = surroundings;
  const faults: Fault[] = [];
  const notes = new Set<string>();
  const before = sent();
  const context = contextOf(surroundings, faults, notes);
  let reason: string | null = null;
  try {
    await check.run(context);
  } catch (error) {
    if (error instanceof Inconclusive || error instanceof RequestLimitReached) reason = error.message;
    else if (error instanceof NoAnswer) await judgeSilence(context, error);
    else throw error;
  }
  const own = faults.filter(({ code }) => !settings.ignored.has(code));
  const exchanges = session.takeExchanges();
  const verdict = own.length > 0 ? "faulty" : reason !== null ? "inconclusive" : "passed";
  return {
    name: check.name,
    about: check.about,
    verdict,
    reason,
    faults: own,
    ignored: faults.filter(({ code }) => settings.ignored.has(code)),
    notes: [...notes],
    requests: sent() - before,
    exchanges: verdict === "passed" ? [] : exchanges,
  };
}

/** A server that still answers others has left this request without an answer. */
async function judgeSilence(context: CheckContext, error: NoAnswer): Promise<void> {
  await context.send(context.intend(), context.newKey());
  context.fault("no-answer", `a request got no answer, but others do: ${error.message}`);
}

function contextOf(
  { target, settings, session, baseline }: Surroundings,
  faults: Fault[],
  notes: Set<string>,
): CheckContext {
  const lines = (key: string) => [writeKey(key, baseline.keyForm)];
  return {
    target,
    profile: settings.profile,
    settings,
    baseline,
    intend: session.intend,
    newKey: session.newKey,
    send: (intention, key, options) => session.sendRaw(intention, lines(key), options),
    sendRaw: (intention, keyLines) => session.sendRaw(intention, keyLines),
    together: (requests) =>
      session.together(requests.map(({ intention, key }) => ({ intention, keyLines: lines(key) }))),
    cut: (intention, key, cutAt) => session.cut(intention, lines(key), cutAt),
    sendUntilFinal: (intention, key, options) => session.sendUntilFinal(intention, lines(key), options),
    count: session.count,
    fault(code, message) {
      if (!faults.some((fault) => fault.code === code)) faults.push(makeFault(code, message));
    },
    note: (text) => notes.add(text),
  };
}

function skipped({ name, about }: Check, reason: string): CheckReport {
  const nothing = { faults: [], ignored: [], notes: [], requests: 0, exchanges: [] };
  return { name, about, verdict: "skipped", reason, ...nothing };
}
