/** One death: what comes before it, the process that dies, those who go on, and what is left. */
import { type Course, driveToEnd, isSatisfied, retry } from "./drive-to-end.ts";
import type { Lane } from "./lane.ts";
import { besides, cleaning, type Mode, type Other, type Step } from "./modes.ts";
import type { Point } from "./points.ts";
import type { Reply } from "./reply.ts";
import type { CleanedStory, SeenAll, Story } from "./story.ts";
import type { Job } from "./victim-process.ts";
import { openVictim, type Victim, type VictimEnd, type VictimOptions } from "./victims.ts";
import { hold } from "./violation.ts";
import type { Order } from "./work.ts";

/** The server ends what the dead have left open after this; only what comes late has to wait for it. */
const lateLimitMs = 1_500;
const limitMs = 20_000;

/** What is made ready ahead: the processes of one case, the last of which is the one that matters. */
export interface Case {
  readonly name: string;
  readonly mode: Mode;
  /** Null: nobody dies in the end. */
  readonly point: Point | null;
  readonly victim: Victim;
  /** Those that die before, in their order. */
  readonly earlier: readonly Victim[];
}

export async function openCase(
  lane: Lane,
  { name, mode, point }: Pick<Case, "name" | "mode" | "point">,
  options: VictimOptions,
): Promise<Case> {
  const open = (suffix: string, job: Job, killPoint: Parameters<typeof openVictim>[0]["doom"]) =>
    openVictim(
      {
        name: `${name}${suffix}`,
        databaseUrl: lane.url,
        otherSidePort: lane.otherSide.port,
        transactionLimitMs: killPoint?.moment === "late" ? lateLimitMs : limitMs,
        doom: killPoint,
        job,
        acknowledged: { name: `${name}${suffix} before`, notices: [] },
      },
      options,
    );
  const deaths = mode.before.filter((step) => step.do === "die");
  const earlier = await Promise.all(
    deaths.map((step, index) => {
      const { as, port, nth, moment, other } = step;
      const killPoint = { series: "calls", of: port, number: nth, moment, write: 1 } as const;
      return open(` died ${index + 1}`, jobOf(name, mode, as, other), killPoint);
    }),
  );
  return { name, mode, point, victim: await open("", jobOf(name, mode, mode.worker), point), earlier };
}

function orderOf(name: string, { notices }: Pick<Mode, "notices">, other?: Other): Order {
  return other === undefined ? { name, notices } : { name: name + other.suffix, notices: other.notices };
}

function jobOf(name: string, mode: Mode, as: Mode["worker"], other?: Other): Job {
  if (as !== "submit") return { do: "work", service: as };
  const { operation } = other ?? mode;
  return { do: "submit", operation, order: orderOf(name, mode, other) };
}

export async function stopCase({ victim, earlier }: Case): Promise<void> {
  await Promise.all([victim, ...earlier].map((process) => process.stop()));
}

/** Runs it to where the process dies, or ends by itself. */
async function untilDead(
  lane: Lane,
  one: Case,
): Promise<{ readonly ended: VictimEnd; readonly replies: Reply[] }> {
  const { name, mode, earlier, victim } = one;
  const replies: Reply[] = [];
  const deaths = [...earlier];
  for (const step of mode.before) {
    const dead = step.do === "die" ? deaths.shift() : undefined;
    await take(lane, name, mode, step, replies, dead);
    const reply = dead?.replyTo("job") ?? null;
    if (reply !== null) replies.push(reply);
  }
  lane.begin();
  const ended = await victim.run();
  const reply = victim.replyTo("job");
  if (reply !== null) replies.push(reply);
  return { ended, replies };
}

async function take(
  lane: Lane,
  name: string,
  mode: Mode,
  step: Step,
  replies: Reply[],
  dead: Victim | undefined,
): Promise<void> {
  switch (step.do) {
    case "submit": {
      const { other } = step;
      const now = await lane.submit((other ?? mode).operation, orderOf(name, mode, other));
      if (other === undefined) replies.push(now);
      return;
    }
    case "work":
      return lane.work(step.service);
    case "advance":
      return lane.advance();
    case "die":
      if (dead === undefined) throw new TypeError("every death has its process");
      await die(lane, dead);
      return;
    default:
      return step satisfies never;
  }
}

async function die(lane: Lane, victim: Victim): Promise<void> {
  const ended = await victim.run();
  if (ended.kind !== "killed") throw new Error(`${victim.name} was not killed`);
  await isGone(lane, victim);
}

/** Everything of it that was to arrive at once has arrived. */
async function isGone(lane: Lane, victim: Victim): Promise<void> {
  await lane.otherSide.receivedAll(victim.name);
  await lane.sessionsEnd(victim.name);
}

/** Nobody dies: what it calls. */
export async function runUndisturbed(lane: Lane, one: Case): Promise<Extract<VictimEnd, { kind: "lived" }>> {
  const { ended } = await untilDead(lane, one);
  if (ended.kind !== "lived") throw new Error(`${one.name} died, and no death was planned`);
  await one.victim.end();
  await driveToEnd(
    { lane, mode: one.mode, order: orderOf(one.name, one.mode), dead: one.name, replies: [] },
    false,
  );
  return ended;
}

/** Null: it did not come to its point. */
export async function runDeath(lane: Lane, one: Case, point: Point): Promise<Story | CleanedStory | null> {
  const { name, mode, victim } = one;
  const order = orderOf(name, mode);
  const before = lane.otherSide.arrivals.length;
  const { ended, replies } = await untilDead(lane, one);
  if (ended.kind === "lived") return null;
  const isAt = ended.moment === point.moment && ended.number === point.number && ended.port === point.port;
  if (!isAt) throw new Error(`${name} died at ${ended.number} ${ended.port} ${ended.moment}`);
  const late = point.moment === "late";
  await lane.otherSide.receivedAll(name);
  if (!late || isOfOtherSide(point)) await lane.sessionsEnd(name);
  const wreck = await seeAll(lane, one);
  const arrivedBefore = arrivalsSince(lane, name, before).length;
  const repliesBefore = replies.length;
  const course: Course = { lane, mode, order, dead: name, replies };
  await driveToEnd(course, mode.continuedBy === "client");
  const beforeLate = late ? await lane.see(name) : null;
  if (late) await arrive(lane, victim, course);
  if (mode === cleaning) {
    await victim.stop();
    // Delivered, past its retention, and found by the next round.
    for (let times = 0; times < 2; times++) {
      await lane.advance();
      await driveToEnd(course, false);
    }
    return { kind: "cleaned", point, wreck, end: await seeAll(lane, one), events: lane.events };
  }
  const asked = await finalQuestions(course, victim);
  await victim.stop();
  return {
    kind: "story",
    mode,
    point,
    order,
    arrivals: arrivalsSince(lane, name, before),
    arrivedBefore,
    wreck: wreck.own,
    beforeLate,
    end: await lane.see(name),
    replies,
    repliesBefore,
    events: lane.events,
    ran: lane.ran.filter((ran) => ran.name === name).map(({ step }) => step),
    ...asked,
  };
}

const isOfOtherSide = ({ port }: Point) => port === "send" || port === "lookup" || port === "close";

function arrivalsSince({ otherSide }: Lane, name: string, since: number) {
  const isOwn = (other: string) => other === name || other.startsWith(`${name}, `);
  return otherSide.arrivals.slice(since).filter((arrival) => isOwn(arrival.name));
}

async function seeAll(lane: Lane, { name }: Case): Promise<SeenAll> {
  const of = (suffix: string) => lane.see(name + suffix);
  const [own, unknown, undelivered, waiting] = await Promise.all([
    of(""),
    of(besides.unknown.suffix),
    of(besides.undelivered.suffix),
    of(besides.waiting.suffix),
  ]);
  return { own, unknown, undelivered, waiting };
}

/** What the dead process had sent arrives now, when all is at rest. */
async function arrive(lane: Lane, victim: Victim, course: Course): Promise<void> {
  const came = lane.otherSide.arrive(victim.name);
  hold("P5", came <= 1, `${came} questions came late`);
  await victim.arrive();
  await lane.sessionsEnd(victim.name);
  await driveToEnd(course, false);
}

/** A client that has waited for all this, two that come later, and one that takes the key for something else. */
async function finalQuestions(
  course: Course,
  victim: Victim,
): Promise<Pick<Story, "acknowledged" | "misuse" | "ofMisuse">> {
  const { lane, mode, order } = course;
  if (!isSatisfied(await retry(course))) await driveToEnd(course, true);
  else await driveToEnd(course, false);
  for (let times = 0; times < 2; times++) await retry(course);
  const { acknowledged } = victim.settings;
  const after = await lane.submit("order", acknowledged);
  const other = { name: `${order.name} misused`, notices: order.notices };
  const misuse = await lane.submit(mode.operation, other, order.name);
  const { placed, settled } = await lane.see(other.name);
  const arrivals = lane.otherSide.arrivals.filter(({ name }) => name.startsWith(other.name)).length;
  return {
    acknowledged: [victim.replyTo("acknowledged") ?? { kind: "refused", why: "it got no reply" }, after],
    misuse,
    ofMisuse: { placed, settled, arrivals },
  };
}
