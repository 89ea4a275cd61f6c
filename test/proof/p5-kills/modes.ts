/** Every way to execute something, and every background service: each is killed at each of its port calls. */
import type { ServiceName } from "./assemble.ts";
import type { Moment, Port, Series } from "./course.ts";
import { type Kind, kinds, type NoticeName } from "./effects.ts";
import { type End, laterName, stepsName } from "./work.ts";

export type Worker = "submit" | ServiceName;

/** An order beside the one that a mode is about. */
export interface Other {
  readonly operation: string;
  /** What its name has more. */
  readonly suffix: string;
  readonly notices: readonly NoticeName[];
}

/** What has happened before the process begins that is to be killed. */
export type Step =
  | { readonly do: "submit"; readonly other?: Other }
  | { readonly do: "work"; readonly service: ServiceName }
  /** Every lease and every pause of the store's clock ends. */
  | { readonly do: "advance" }
  /** Another process has died there. */
  | {
      readonly do: "die";
      readonly as: Worker;
      readonly port: Port;
      readonly nth: number;
      readonly moment: Exclude<Moment, "late">;
      readonly other?: Other;
    };

/** What the business does when it is done once. */
export interface Shape {
  readonly placed: boolean;
  readonly settled: boolean;
  /** The call of a step; `bare`: of a handler by itself; null: none. */
  readonly call: Kind | "bare" | null;
}

export interface Mode {
  readonly name: string;
  readonly operation: string;
  readonly notices: readonly NoticeName[];
  readonly shape: Shape;
  readonly before: readonly Step[];
  readonly worker: Worker;
  readonly series: Series;
  /** Who goes on: a client that comes again, with what finds out about unknowns; or all services, and no client. */
  readonly continuedBy: "client" | "services";
  /** Counters that a whole run of this mode must have raised. */
  readonly reaches: readonly string[];
}

type Part = Pick<Mode, "name" | "operation" | "shape"> & Partial<Mode>;

function mode(part: Part): Mode {
  const defaults = {
    notices: [],
    before: [],
    worker: "submit",
    series: "calls",
    continuedBy: "client",
    reaches: [],
  } as const;
  return { ...defaults, ...part };
}

const placing: Shape = { placed: true, settled: false, call: null };
const bare: Shape = { placed: false, settled: false, call: "bare" };
const stepping = (call: Kind): Shape => ({ placed: true, settled: true, call });

/** Counters of what may have become of an unanswered COMMIT. */
const inDoubt = ["unanswered COMMIT: committed", "unanswered COMMIT: rolled back"] as const;

const transactions: readonly Mode[] = [
  mode({ name: "transaction", operation: "order", shape: placing, reaches: inDoubt }),
  mode({
    name: "transaction, serializable",
    operation: "order, serializable",
    shape: placing,
    reaches: inDoubt,
  }),
  mode({
    name: "transaction that enqueues",
    operation: "order",
    shape: placing,
    notices: ["noted-provider", "notice-none"],
    reaches: [...inDoubt, "delivered"],
  }),
];

const bareLeases: readonly Mode[] = [
  mode({
    name: "lease, reconcile, by the client",
    operation: "bare reconcile",
    shape: bare,
    reaches: ["found unknown", "left to a person"],
  }),
  mode({
    name: "lease, reconcile, by services",
    operation: "bare reconcile",
    shape: bare,
    continuedBy: "services",
    reaches: ["found unknown", "left to a person"],
  }),
  mode({
    name: "lease, reconcile with a look-up",
    operation: "bare lookup",
    shape: bare,
    continuedBy: "services",
    reaches: ["found unknown", "settled: found-downstream", "left to a person"],
  }),
  mode({
    name: "lease, rerun",
    operation: "bare rerun",
    shape: bare,
    reaches: ["run again", "known downstream"],
  }),
  mode({
    name: "lease, renewals",
    operation: "bare beats",
    shape: bare,
    series: "beats",
    reaches: ["found unknown", "left to a person"],
  }),
];

/** What must be seen of a call in steps whose process dies in the middle of it. */
const settledBy: Readonly<Record<Kind, readonly string[]>> = {
  provider: ["known downstream"],
  close: ["settled: found-downstream", "settled: closed-downstream"],
  reopen: ["settled: found-downstream", "settled: closed-downstream", "sent under a new key"],
  lookup: ["settled: found-downstream", "left to a person"],
  none: ["left to a person"],
};

const steps: readonly Mode[] = kinds.flatMap((kind) =>
  (["finish", "return"] as const).flatMap((end) =>
    (["resume", "reconcile"] as const).map((leaseEnd) => {
      // Each of both goers meets each end and each policy.
      const continuedBy = (end === "finish") === (leaseEnd === "resume") ? "services" : "client";
      const seen =
        leaseEnd === "reconcile" ? ["found unknown", "settled: no-call-in-doubt"] : ["found unknown"];
      const proof =
        leaseEnd === "reconcile" && kind === "provider" ? ["settled: downstream-deduplicates"] : [];
      const unknown = kind === "provider" && leaseEnd === "resume" ? [] : seen;
      return mode({
        name: `steps, ${kind}, ${end}, ${leaseEnd}, by ${continuedBy}`,
        operation: stepsName(kind, end, leaseEnd),
        shape: stepping(kind),
        continuedBy,
        reaches: ["resumed", ...settledBy[kind], ...unknown, ...proof],
      });
    }),
  ),
);

/** A first process died with its call unsent, or sent. */
const died = (as: Worker, sent: boolean): Step => {
  const call = as === "dispatcher" ? "startEffects" : "startCall";
  return { do: "die", as, port: sent ? "send" : call, nth: 1, moment: "after" };
};
const wordOf = (sent: boolean) => (sent ? "sent" : "unsent");
const both = [true, false] as const;
const advance: Step = { do: "advance" };

/** Whoever goes on is killed in turn. */
const goingOn: readonly Mode[] = kinds.flatMap((kind) =>
  both.flatMap((sent) => {
    const resume = { operation: stepsName(kind, "finish", "resume"), shape: stepping(kind) };
    const reconcile = { operation: stepsName(kind, "return", "reconcile"), shape: stepping(kind) };
    const before = [died("submit", sent), advance];
    const rescued: readonly Step[] = [...before, { do: "work", service: "rescuer" }];
    const retry = mode({ ...resume, name: `retry after a death, ${kind}, ${wordOf(sent)}`, before });
    const rescue = mode({
      ...resume,
      name: `rescuer that resumes, ${kind}, ${wordOf(sent)}`,
      worker: "rescuer",
      continuedBy: "services",
      before,
      reaches: ["resumed"],
    });
    const reconciler = mode({
      ...reconcile,
      name: `reconciler, ${kind}, ${wordOf(sent)}`,
      worker: "reconciler",
      continuedBy: "services",
      before: rescued,
    });
    return [retry, rescue, reconciler];
  }),
);

const rescuers: readonly Mode[] = [
  mode({
    name: "rescuer that gives up, of a handler",
    operation: "bare reconcile",
    shape: bare,
    worker: "rescuer",
    continuedBy: "services",
    before: [{ do: "die", as: "submit", port: "create", nth: 1, moment: "after" }, advance],
    reaches: ["found unknown", "left to a person"],
  }),
  mode({
    name: "rescuer that gives up, of steps",
    operation: stepsName("reopen", "finish", "reconcile"),
    shape: stepping("reopen"),
    worker: "rescuer",
    continuedBy: "services",
    before: [{ do: "die", as: "submit", port: "commitPhase", nth: 1, moment: "after" }, advance],
    reaches: ["found unknown", "settled: no-call-in-doubt", "resumed"],
  }),
  mode({
    name: "reconciler that asks for an operation",
    operation: "bare lookup",
    shape: bare,
    worker: "reconciler",
    continuedBy: "services",
    before: [
      { do: "die", as: "submit", port: "send", nth: 1, moment: "after" },
      advance,
      { do: "work", service: "rescuer" },
    ],
    reaches: ["settled: found-downstream"],
  }),
];

const laterNotices = (end: End): readonly NoticeName[] => (end === "finish" ? ["noted-provider"] : []);

const deferred: readonly Mode[] = [
  ...(["client", "services"] as const).map((continuedBy) =>
    mode({
      name: `deferred, its API, by ${continuedBy}`,
      operation: laterName("provider", "finish"),
      notices: laterNotices("finish"),
      shape: stepping("provider"),
      continuedBy,
      reaches: ["delivered"],
    }),
  ),
  ...(
    [
      ["provider", "finish"],
      ["provider", "delivery"],
      ["none", "finish"],
    ] as const
  ).flatMap(([kind, end]) => {
    const common = {
      operation: laterName(kind, end),
      notices: laterNotices(end),
      shape: stepping(kind),
      continuedBy: "services",
    } as const;
    const doubt = kind === "provider" ? [] : ["found unknown"];
    return [
      mode({
        ...common,
        name: `deferred, its worker, ${kind}, ${end}`,
        worker: "pending",
        before: [{ do: "submit" }],
        reaches: ["resumed", ...settledBy[kind], ...doubt, "delivered"],
      }),
      mode({
        ...common,
        name: `deferred, gone on with by the rescuer, ${kind}, ${end}`,
        worker: "rescuer",
        before: [
          { do: "submit" },
          { do: "die", as: "pending", port: "commitPhase", nth: 1, moment: "after" },
          advance,
        ],
        reaches: ["resumed", "delivered"],
      }),
    ];
  }),
  mode({
    name: "deferred, the delivery that answers",
    operation: laterName("provider", "delivery"),
    shape: stepping("provider"),
    worker: "dispatcher",
    continuedBy: "services",
    before: [{ do: "submit" }, { do: "work", service: "pending" }],
    reaches: ["sent again under its key"],
  }),
];

const deliveredBy: Readonly<Record<Kind, readonly string[]>> = {
  provider: ["sent again under its key", "known downstream"],
  close: ["dead effect: closed-downstream"],
  reopen: ["sent under a new key"],
  lookup: ["dead effect: call-in-doubt"],
  none: ["dead effect: call-in-doubt"],
};
/** With a provider the claim is the start. */
const claimedOnly: Step = { do: "die", as: "dispatcher", port: "claimEffects", nth: 1, moment: "after" };

/** Each kind with and without `onDelivered`, and what a dead dispatcher has left behind. */
const deliveries: readonly Mode[] = kinds.flatMap((kind) => {
  const order = {
    operation: "order",
    shape: placing,
    worker: "dispatcher",
    continuedBy: "services",
  } as const;
  const placed: Step = { do: "submit" };
  const fresh = (["notice", "noted"] as const).map((what) =>
    mode({
      ...order,
      name: `delivery, ${kind}, ${what}`,
      notices: [`${what}-${kind}`],
      before: [placed],
      reaches: ["delivered", ...deliveredBy[kind]],
    }),
  );
  const again = both.map((sent) =>
    mode({
      ...order,
      name: `delivery after a death, ${kind}, ${wordOf(sent)}`,
      notices: [`noted-${kind}`],
      before: [placed, kind === "provider" && !sent ? claimedOnly : died("dispatcher", sent), advance],
    }),
  );
  return [...fresh, ...again];
});

const inOrder = mode({
  name: "delivery in order",
  operation: "order",
  shape: placing,
  worker: "dispatcher",
  continuedBy: "services",
  notices: ["ordered", "ordered", "ordered"],
  before: [{ do: "submit" }],
  reaches: ["delivered", "sent again under its key"],
});

/** What the cleaner must leave alone, and what it must not. */
export const besides = {
  unknown: { operation: "bare reconcile", suffix: " unknown", notices: [] },
  undelivered: { operation: "brief", suffix: " undelivered", notices: ["notice-provider"] },
  waiting: { operation: "brief, later", suffix: " waiting", notices: [] },
} as const satisfies Readonly<Record<string, Other>>;

export const cleaning = mode({
  name: "cleaner",
  operation: "brief",
  shape: placing,
  worker: "cleaner",
  continuedBy: "services",
  before: [
    { do: "die", as: "submit", port: "create", nth: 1, moment: "after", other: besides.unknown },
    advance,
    { do: "work", service: "rescuer" },
    { do: "submit" },
    { do: "submit", other: besides.undelivered },
    { do: "submit", other: besides.waiting },
    advance,
  ],
  reaches: ["forgotten", "abandoned"],
});

/** Modes that have something in common, for the report. */
export const families: Readonly<Record<string, readonly Mode[]>> = {
  "transaction execution": transactions,
  "handlers under a lease": bareLeases,
  "operations in steps": steps,
  "those who go on after a death": [...goingOn, ...rescuers],
  "deferred execution": deferred,
  deliveries: [...deliveries, inOrder],
  "the cleaner": [cleaning],
};

export const modes: readonly Mode[] = Object.values(families).flat();
