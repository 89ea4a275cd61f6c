import { describe, expect, test } from "vitest";
import { type Answered, type Asked, type CheckOptions, checkKey, type Operation } from "./linearizable.ts";
import { explainable } from "./linearizable-reference.ts";
import { type Draw, drawFrom, seedOf } from "./seeded.ts";

const answers = {
  executed: (answer = "A"): Answered => ({ kind: "executed", answer }),
  replay: (answer = "A"): Answered => ({ kind: "replay", answer }),
  answered: (answer = "A"): Answered => ({ kind: "answered", answer }),
  in_progress: { kind: "in_progress" },
  misuse: { kind: "misuse" },
  unknown: { kind: "unknown" },
  retryable: { kind: "retryable" },
  expired: { kind: "expired" },
  accepted: { kind: "accepted" },
  doubt: { kind: "doubt" },
  done: { kind: "done" },
} as const;
const { executed, replay, in_progress, misuse, unknown, retryable } = answers;

let names = 0;

function ask(asked: Asked, from: number, to: number | null, answered: Answered | null): Operation {
  names += 1;
  return { process: `p${names}`, asked, invokedAt: from, returnedAt: to, answered };
}

function submit(from: number, to: number, answered: Answered, fingerprint = "f"): Operation {
  return ask({ kind: "submit", fingerprint }, from, to, answered);
}

/** Its process dies, or its reply is lost. */
function lost(from: number, fingerprint = "f"): Operation {
  return ask({ kind: "submit", fingerprint }, from, null, null);
}

function set(from: number, to: number, asked: Asked): Operation {
  return ask(asked, from, to, answers.done);
}

const forgets: Asked = { kind: "forget" };
const settlesB: Asked = { kind: "settle", to: { answer: "B" } };
const settlesRetryable: Asked = { kind: "settle", to: "retryable" };

type Case = readonly [name: string, history: readonly Operation[], options?: CheckOptions];

const named = (cases: readonly Case[]) =>
  cases.map(([name, history, options]) => ({ name, history, options: options ?? {} }));

const possible: readonly Case[] = [
  ["nothing", []],
  ["one runs, the next gets the same reply", [submit(1, 2, executed()), submit(3, 4, replay())]],
  ["a replay returns before the run does", [submit(1, 9, executed()), submit(2, 3, replay())]],
  ["a duplicate meanwhile", [submit(1, 4, executed()), submit(2, 3, in_progress)]],
  ["a run of which nobody got a reply", [lost(1), submit(2, 3, replay()), submit(4, 5, replay())]],
  ["a lost one comes late", [lost(1), submit(2, 3, retryable), submit(4, 5, replay("L"))]],
  ["a lost one holds the key", [lost(1), submit(2, 3, in_progress), submit(4, 5, executed())]],
  ["a doubt", [submit(1, 2, answers.doubt), submit(3, 4, replay()), submit(5, 6, replay())]],
  ["a lost one is given up", [lost(1), submit(2, 3, unknown), submit(4, 5, unknown)]],
  ["its owner settles it late", [lost(1), submit(2, 3, unknown), submit(4, 5, replay())]],
  ["an owner is given up and settles late", [submit(1, 9, executed()), submit(2, 3, unknown)]],
  ["settled by somebody", [lost(1), submit(2, 3, unknown), set(4, 5, settlesB), submit(6, 7, replay("B"))]],
  [
    "settled as not executed",
    [lost(1), submit(2, 3, unknown), set(4, 5, settlesRetryable), submit(6, 7, executed("C"))],
  ],
  [
    "settled by workers, and not run again yet",
    [
      submit(1, 2, answers.accepted),
      submit(3, 4, unknown),
      submit(5, 6, misuse, "g"),
      submit(7, 8, answers.accepted),
      submit(9, 10, replay()),
    ],
    { unseen: "workers" },
  ],
  [
    "settled by workers",
    [submit(1, 2, unknown), submit(3, 4, in_progress), submit(5, 6, replay())],
    { unseen: "workers" },
  ],
  ["another asks something else", [submit(1, 2, executed()), submit(3, 4, misuse, "g")]],
  ["another asks something else meanwhile", [submit(1, 4, retryable), submit(2, 3, misuse, "g")]],
  ["undone, with steps", [submit(1, 2, retryable), submit(3, 4, misuse, "g"), submit(5, 6, executed())]],
  ["forgotten", [submit(1, 2, executed()), set(3, 4, forgets), submit(5, 6, executed("B"))]],
  [
    "expired, then forgotten",
    [
      submit(1, 2, executed()),
      set(3, 4, { kind: "expire" }),
      submit(5, 6, answers.expired),
      set(7, 8, forgets),
      submit(9, 10, executed("B")),
    ],
  ],
  [
    "accepted, run by a worker",
    [submit(1, 2, answers.accepted), submit(3, 4, in_progress), submit(5, 6, replay())],
  ],
  ["a client that cannot tell", [submit(1, 2, answers.answered()), submit(3, 4, answers.answered())]],
  [
    "taken over: the one that ran gets its reply",
    [submit(1, 6, in_progress), submit(2, 3, in_progress), submit(4, 9, executed())],
  ],
];

const impossible: readonly Case[] = [
  ["it runs twice", [submit(1, 2, executed()), submit(3, 4, executed("B"))]],
  ["it runs twice at once", [submit(1, 3, executed()), submit(2, 4, executed("B"))]],
  ["it runs twice and answers the same", [submit(1, 2, executed()), submit(3, 4, executed())]],
  ["a replay of something else", [submit(1, 2, executed()), submit(3, 4, replay("B"))]],
  ["a replay of nothing", [submit(1, 2, replay())]],
  ["a replay of what was undone", [submit(1, 2, retryable), submit(3, 4, replay())]],
  ["a replay before it ran", [submit(1, 2, replay()), submit(3, 4, executed())]],
  ["two replays differ", [lost(1), submit(2, 3, replay()), submit(4, 5, replay("B"))]],
  ["two lost ones both count", [lost(1), lost(2), submit(3, 4, replay()), submit(5, 6, replay("B"))]],
  ["running after its end", [submit(1, 2, executed()), submit(3, 4, in_progress)]],
  ["running though nobody runs", [submit(1, 2, retryable), submit(3, 4, in_progress)]],
  ["two in progress, and nobody else", [submit(1, 3, in_progress), submit(2, 4, in_progress)]],
  ["only something else runs", [submit(1, 4, executed(), "g"), submit(2, 3, in_progress)]],
  ["misuse of a key nobody has", [submit(1, 2, misuse)]],
  ["misuse of one's own", [submit(1, 2, executed()), submit(3, 4, misuse)]],
  ["no misuse", [submit(1, 2, executed()), submit(3, 4, replay(), "g")]],
  ["it runs as something else", [submit(1, 2, executed()), submit(3, 4, executed("B"), "g")]],
  ["unknown after its end", [submit(1, 2, executed()), submit(3, 4, unknown)]],
  ["unknown to one that asks something else", [submit(1, 2, unknown), submit(3, 4, unknown, "g")]],
  ["an unknown runs again", [lost(1), submit(2, 3, unknown), submit(4, 5, executed("B"))]],
  ["unknown, and then it has not been", [submit(1, 2, unknown), submit(3, 4, in_progress)]],
  ["one loss counts twice", [lost(1), submit(2, 3, replay()), set(4, 5, forgets), submit(6, 7, replay("B"))]],
  [
    "settled, and something else is replayed",
    [lost(1), submit(2, 3, unknown), set(4, 5, settlesB), submit(6, 7, replay())],
  ],
  ["settled without a doubt", [submit(1, 2, executed()), set(3, 4, settlesB)]],
  [
    "forgotten, and replayed",
    [submit(1, 2, executed()), set(3, 4, forgets), submit(5, 6, executed("B")), submit(7, 8, replay())],
  ],
  ["expired without its time", [submit(1, 2, executed()), submit(3, 4, answers.expired)]],
  [
    "taken in again, though nobody has settled it",
    [submit(1, 2, answers.accepted), submit(3, 4, unknown), submit(5, 6, answers.accepted)],
  ],
  [
    "taken in again after its answer",
    [submit(1, 2, answers.accepted), submit(3, 4, replay()), submit(5, 6, answers.accepted)],
    { unseen: "workers" },
  ],
  ["runs after it was accepted", [submit(1, 2, answers.accepted), submit(3, 4, executed())]],
  [
    "workers complete it twice",
    [submit(1, 2, unknown), submit(3, 4, replay()), submit(5, 6, replay("B"))],
    { unseen: "workers" },
  ],
];

describe("what a key can have answered", () => {
  test.each(named(possible))("$name", ({ history, options }) => {
    expect(checkKey(history, options)).toMatchObject({ ok: true });
  });
});

describe("what a key cannot have answered", () => {
  test.each(named(impossible))("$name", ({ history, options }) => {
    expect(checkKey(history, options)).toMatchObject({ ok: false });
  });
});

test("says which answer, and what was open", () => {
  const history = [submit(1, 2, executed()), lost(3), submit(4, 9, in_progress), submit(5, 6, executed("B"))];
  const verdict = checkKey(history);
  expect(verdict).toMatchObject({ ok: false, at: history[3] });
  const why = verdict.ok ? "" : verdict.why;
  expect(why).toMatch(/explains p\d+: submit\(f\) -> executed B \[5, 6\]/);
  expect(why).toContain("completed (f) with A");
  expect(why).toContain("-> in_progress [4, 9]");
  expect(why).toContain("1 x (f) without an answer");
});

test.each<readonly [string, readonly Operation[]]>([
  ["a number twice", [submit(1, 2, retryable), submit(2, 3, retryable)]],
  ["a return before its call", [submit(2, 1, retryable)]],
  ["an answer that never came", [ask({ kind: "submit", fingerprint: "f" }, 1, null, retryable)]],
  ["an answer of another question", [submit(1, 2, answers.done)]],
  [
    "a process that asks again",
    [
      { ...lost(1), process: "same" },
      { ...lost(2), process: "same" },
    ],
  ],
])("a history that is none: %s", (_name, history) => {
  expect(() => checkKey(history)).toThrow(RangeError);
});

/** A few operations, anyhow: most of these cannot be. */
function anyHistory(draw: Draw): readonly Operation[] {
  const count = 2 + draw.below(3);
  const moments = Array.from({ length: 2 * count }, (_, index) => index + 1);
  return Array.from({ length: count }, () => {
    const take = () => moments.splice(draw.below(moments.length), 1)[0] ?? 0;
    const [one, other] = [take(), take()];
    const [from, to] = [Math.min(one, other), Math.max(one, other)];
    const fingerprint = draw.oneIn(4) ? "g" : "f";
    if (draw.oneIn(5)) return lost(from, fingerprint);
    const answer = draw.pick(["A", "B"]);
    const all = [executed(answer), replay(answer), in_progress, misuse, unknown, retryable];
    return submit(from, to, draw.pick(all), fingerprint);
  });
}

test("judges small histories as the slow search through all orders does", () => {
  const counts = { both: 0, neither: 0, lenient: 0 };
  for (let run = 0; run < 6_000; run++) {
    const history = anyHistory(drawFrom(seedOf(7n, run)));
    const [fast, slow] = [checkKey(history).ok, explainable(history)];
    // In one way the fast one is lenient: a request that ran before it got the reply of another is not followed in detail.
    if (fast && !slow) {
      const replied = history.filter(
        ({ answered }) => answered?.kind === "in_progress" || answered?.kind === "misuse",
      );
      expect(replied.length, JSON.stringify(history)).toBeGreaterThan(1);
      counts.lenient += 1;
    } else {
      expect(fast, JSON.stringify(history)).toBe(slow);
      counts[fast ? "both" : "neither"] += 1;
    }
  }
  expect(counts.both).toBeGreaterThan(300);
  expect(counts.neither).toBeGreaterThan(3_000);
  expect(counts.lenient).toBeLessThan(60);
});

interface Running {
  readonly process: string;
  readonly invokedAt: number;
  readonly fingerprint: string;
  /** What it will be answered, once that is certain; the reply comes later. */
  decided: Answered | null;
}

interface Holder {
  readonly by: Running | null;
  readonly fingerprint: string;
  /** Null while it runs. */
  readonly answer: string | null;
}

/** A sound key under many processes that ask, die, and get late replies; it is forgotten from time to time. */
function longHistory(draw: Draw, count: number, atOnce: number): readonly Operation[] {
  const history: Operation[] = [];
  const open: Running[] = [];
  let [moment, life] = [0, 0];
  let holder = null as Holder | null;
  const close = (one: Running, answered: Answered | null) => {
    open.splice(open.indexOf(one), 1);
    const asked: Asked = { kind: "submit", fingerprint: one.fingerprint };
    moment += 1;
    const [process, invokedAt] = [one.process, one.invokedAt];
    history.push({ process, asked, invokedAt, returnedAt: answered && moment, answered });
  };
  while (history.length < count) {
    moment += 1;
    if (draw.oneIn(400) && holder !== null && holder.answer !== null) {
      history.push(set(moment, moment + 1, forgets));
      moment += 1;
      holder = null;
    } else if (open.length < atOnce && !draw.oneIn(3)) {
      const fingerprint = draw.oneIn(8) ? "g" : "f";
      names += 1;
      open.push({ process: `p${names}`, invokedAt: moment, fingerprint, decided: null });
    } else if (open.length > 0) {
      const one = draw.pick(open);
      if (one.decided !== null) close(one, one.decided);
      else if (holder === null) holder = { by: one, fingerprint: one.fingerprint, answer: null };
      else if (holder.by === one) {
        life += 1;
        const end = draw.below(4);
        // The lost one may have completed, or not; nobody has got a reply.
        if (end === 0) close(one, null);
        else one.decided = end === 1 ? retryable : executed(`answer ${life}`);
        holder =
          end === 1 || (end === 0 && draw.oneIn(2))
            ? null
            : { ...holder, by: null, answer: `answer ${life}` };
      } else if (holder.fingerprint !== one.fingerprint) one.decided = misuse;
      else one.decided = holder.answer === null ? in_progress : replay(holder.answer);
    }
  }
  return history;
}

/** One answer becomes one that cannot have been. */
function spoilt(history: readonly Operation[], draw: Draw): readonly Operation[] {
  const replays = history.filter(({ answered }) => answered?.kind === "replay");
  const chosen = draw.pick(replays);
  const false_ = draw.pick([replay("never given"), executed("of its own")]);
  return history.map((one) => (one === chosen ? { ...one, answered: false_ } : one));
}

test("judges thousands of operations on one key, with dozens at once", () => {
  for (const [run, atOnce] of [4, 16, 48].entries()) {
    const draw = drawFrom(seedOf(11n, run));
    const history = longHistory(draw, 4_000, atOnce);
    const startedMs = performance.now();
    const verdict = checkKey(history);
    const ms = Math.round(performance.now() - startedMs);
    process.stdout.write(
      `4000 operations, ${atOnce} at once: ${ms} ms, ${JSON.stringify(verdict).slice(0, 60)}\n`,
    );
    expect(verdict).toMatchObject({ ok: true });
    if (verdict.ok) expect(verdict.configurations).toBeLessThan(200);
    expect(checkKey(spoilt(history, draw))).toMatchObject({ ok: false });
  }
});
