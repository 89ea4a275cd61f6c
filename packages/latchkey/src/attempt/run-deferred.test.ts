import { describe, expect, test } from "vitest";
import {
  type Charge,
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type SendFault,
} from "../../../../test/support/downstream-ledger.ts";
import type { Codec } from "../codec.ts";
import type { Effect, EffectOptions } from "../effects/effect.ts";
import type { LatchkeyRecord } from "../engine/record.ts";
import { EffectRefused } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import { effectDispatcher } from "../maintenance/effect-dispatcher.ts";
import { leaseRescuer } from "../maintenance/lease-rescuer.ts";
import { outcomeReconciler } from "../maintenance/outcome-reconciler.ts";
import type { OwnedOperationOptions } from "../owned-operation.ts";
import type { Limits } from "../resilience/limits.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import type { FaultPlan } from "../testing/faulty-store/fault.ts";
import { faultyStore } from "../testing/faulty-store.ts";
import { manualPorts } from "../testing/manual-ports.ts";
import { awaitedBy } from "./awaited-answer.ts";
import { runClaimed } from "./execute-owned.ts";
import type { DeferredAttempt, RunAnswer } from "./own-work.ts";
import type { OwnedRunResult } from "./run-function.ts";
import { leaseTerms } from "./run-lease.ts";

type Tx = MemoryTransaction;
type Attempt = DeferredAttempt<Tx>;
type Notice = { readonly to: string };
type Options = Partial<OwnedOperationOptions<ChargeInput, Tx, "deferred">>;

const key = { tenant: "t", scope: "report", key: "k" };
const request = { tenant: "t", key: "k", input: { amount: 5 } };
const leaseMs = 3_000;
const hour = 60 * 60 * 1_000;

interface Made {
  readonly charge: Effect<ChargeInput, Charge>;
  readonly notify: Effect<Notice, Receipt>;
}
type Work = (attempt: Attempt, made: Made, input: ChargeInput) => Promise<RunAnswer>;
interface Receipt {
  readonly receipt: string;
}

interface Setting {
  readonly plan?: FaultPlan;
  readonly wrap?: (store: Store<Tx>) => Store<Tx>;
  readonly options?: Options;
  readonly codec?: Codec;
  readonly limits?: Limits;
  readonly notify?: Partial<EffectOptions<Notice, Receipt, Tx>>;
  readonly send?: () => SendFault;
  readonly kind?: "provider" | "none";
}

/** Processes over one store, one provider and one clock. */
function setUp(common: Setting = {}) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const ledger = new DownstreamLedger({ deduplicates: true });
  const events: LatchkeyEvent[] = [];
  const hints: string[] = [];
  const start = (work: Work, more: Setting = {}) => {
    const setting = { ...common, ...more };
    const faulty = faultyStore<Tx>(setting.wrap?.(memory) ?? memory, setting.plan ?? (() => "proceed"));
    const latchkey = createLatchkey<Tx>({
      store: faulty.store,
      ports,
      circuitBreaker: false,
      ...(setting.codec === undefined ? {} : { codec: setting.codec }),
      ...(setting.limits === undefined ? {} : { limits: setting.limits }),
      onEvent: (event) => events.push(event),
    });
    latchkey.runtime.hints.listen((hint) => hints.push(hint));
    const made: Made = {
      charge: latchkey.effect(
        "charge",
        chargeEffect(ledger, setting.kind ?? "provider", setting.send ?? (() => "proceed"), faulty.kill),
      ),
      notify: latchkey.effect<Notice, Receipt>("notify", {
        deduplication: "provider",
        dedupeWindowMs: hour,
        execute: async ({ to }) => ({ receipt: `to ${to}` }),
        onDelivered: async ({ result, answer }) => answer({ status: 201, body: result }),
        ...setting.notify,
      }),
    };
    const operation = latchkey.operation("report", {
      execution: "deferred",
      leaseMs,
      attemptsMax: 3,
      version: "1",
      run: (input: ChargeInput, attempt) => work(attempt, made, input),
      ...setting.options,
    });
    const submit = (input = request.input) => latchkey.run(operation, { ...request, input });
    const claim = () => {
      const tokens = [latchkey.runtime.ports.random.token()];
      return faulty.store.claimPending([{ operation: "report", tokens, terms: leaseTerms(operation) }]);
    };
    /** What a worker does with what is pending. */
    const workOff = async () => {
      const claimedAtMs = ports.clock.monotonicMs();
      for (const record of await claim()) {
        await runClaimed(latchkey.runtime, record, claimedAtMs).catch(() => {});
      }
    };
    const services = {
      rescuer: leaseRescuer(latchkey),
      reconciler: outcomeReconciler(latchkey),
      dispatcher: effectDispatcher(latchkey),
    };
    return { latchkey, operation, submit, claim, workOff, kill: faulty.kill, ...made, ...services };
  };
  const record = async () => (await memory.read(key)).record;
  /** Runs `task` while time goes on, at most for `ms`. */
  const inTime = async <T>(task: Promise<T>, ms = 30_000): Promise<T> => {
    task.catch(() => {});
    await ports.clock.advance(ms);
    const late = new Promise<never>((_, reject) =>
      setImmediate(() => reject(new Error("It has not ended in that time"))),
    );
    return Promise.race([task, late]);
  };
  /** Workers of a process, for some rounds a second apart; each round takes as long as it takes. */
  const workOn = async (process: ReturnType<typeof start>, rounds: number) => {
    const { workOff, rescuer, reconciler, dispatcher } = process;
    const jobs = [workOff, rescuer.runOnce, reconciler.runOnce, dispatcher.runOnce];
    for (let round = 0; round < rounds; round++) {
      for (const job of jobs) {
        let over = false;
        const run = job().then(
          () => {
            over = true;
          },
          () => {
            over = true;
          },
        );
        for (let waited = 0; !over && waited < 12_000; waited += 500) {
          await new Promise((resolve) => setImmediate(resolve));
          if (!over) await ports.clock.advance(500);
        }
        void run;
      }
      await ports.clock.advance(1_000);
    }
  };
  const typesOf = (...wanted: string[]) =>
    events.map(({ type }) => type).filter((type) => wanted.includes(type));
  return { ports, memory, ledger, events, hints, start, record, inTime, workOn, typesOf };
}

/** Phase, call, last phase. */
const threeSteps: Work = async (attempt, { charge }, { amount }) => {
  await attempt.phase("order", async (tx) => tx.insert("orders", { amount }));
  const { id } = await attempt.call("charged", charge, { amount });
  return attempt.finish("settled", async (tx) => {
    await tx.insert("settled", { id });
    return { status: 201, body: { chargeId: id } };
  });
};

const quick: Work = async (_, __, input) => ({ status: 201, body: { input } });
const never = () => new Promise<never>(() => {});
const failing: Work = () => Promise.reject(new Error("no"));

function recordIdOf(result: OwnedRunResult): string {
  if (result.kind !== "accepted") throw new Error(`${result.kind}, not accepted`);
  return result.recordId;
}

describe("a deferred request", () => {
  test("is kept, found by its id, and told to a worker; its handler does not run", async () => {
    const codec: Codec = {
      encode: (plain, { part }) => Buffer.concat([Buffer.from(`${part} `), plain]),
      decode: (stored, { part }) => Buffer.from(stored).subarray(part.length + 1),
    };
    const world = setUp({ codec });
    let runs = 0;
    const { submit } = world.start(async () => ({ status: 200 + runs++ }));
    const result = await submit();
    expect(result).toEqual({ kind: "accepted", recordId: expect.any(String), retryAfterMs: 1_000 });
    const recordId = recordIdOf(result);
    expect(await world.record()).toMatchObject({
      id: recordId,
      state: "pending",
      operation: "report",
      fence: { attempt: 1 },
    });
    expect((await world.memory.readById("t", recordId)).record?.id).toBe(recordId);
    expect((await world.memory.readById("other", recordId)).record).toBeNull();
    const journal = await world.memory.journal.read(key, recordId);
    expect(Buffer.from(journal?.input as Uint8Array).toString()).toBe('input {"amount":5}');
    expect(runs).toBe(0);
    expect(world.hints).toEqual(["pending"]);
    expect(world.events).toMatchObject([{ type: "accepted", recordId, operation: "report" }]);
  });

  test("is run by a worker, whose answer is replayed", async () => {
    const world = setUp();
    const { submit, workOff } = world.start(threeSteps);
    const recordId = recordIdOf(await submit());
    await world.inTime(workOff());
    expect(await submit()).toEqual({ kind: "replay", recordId, status: 201, value: { chargeId: "ch_1" } });
    expect(world.memory.rows("orders")).toHaveLength(1);
    const seen = world.typesOf("attempt_resumed", "executed", "replayed");
    expect(seen, "a first attempt resumes nothing").toEqual(["executed", "replayed"]);
  });

  test("is accepted again, and once, while it is pending, running, waiting or left by a dead worker", async () => {
    const world = setUp();
    let end: (answer: RunAnswer | Error) => void = () => {};
    let runs = 0;
    const slow: Work = () => {
      runs += 1;
      return new Promise((resolve, reject) => {
        end = (with_) => (with_ instanceof Error ? reject(with_) : resolve(with_));
      });
    };
    const { submit, workOff, rescuer } = world.start(slow);
    const recordId = recordIdOf(await submit());
    const accepted = async () => {
      const result = await submit();
      expect(recordIdOf(result)).toBe(recordId);
    };
    await accepted();
    const first = workOff();
    await world.ports.clock.advance(4_000);
    expect(await submit(), "half of the time that it has been going on").toMatchObject({
      retryAfterMs: 2_000,
    });
    end(new Error("again"));
    await first;
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "handler-threw" });
    await accepted();
    await world.ports.clock.advance(1_000);
    const frozen = world.start(never, { wrap: (store) => ({ ...store, renew: never }) });
    void frozen.rescuer.runOnce();
    await world.ports.clock.advance(leaseMs + 1);
    expect((await world.record())?.state).toBe("in_progress");
    await accepted();
    expect((await world.record())?.fence.attempt, "no request takes it over").toBe(2);
    const last = rescuer.runOnce();
    await world.ports.clock.advance(0);
    end({ status: 200 });
    await last;
    expect(await submit()).toMatchObject({ kind: "replay", recordId, status: 200 });
    expect(runs).toBe(2);
    expect(world.hints).toEqual(["pending"]);
  });

  test("is one life, however many ask for it at the same time", async () => {
    const world = setUp();
    const processes = [world.start(quick), world.start(quick), world.start(quick)];
    const results = await world.inTime(Promise.all(processes.flatMap(({ submit }) => [submit(), submit()])));
    expect(new Set(results.map(recordIdOf)).size).toBe(1);
    expect(world.hints).toEqual(["pending"]);
  });

  test("of another content, or of another principal, is misuse", async () => {
    const world = setUp();
    const { submit, latchkey, operation } = world.start(quick);
    await submit();
    expect(await submit({ amount: 6 })).toEqual({ kind: "key_misuse", because: "fingerprint" });
    const other = await latchkey.run(operation, { ...request, principal: "somebody" });
    expect(other).toEqual({ kind: "key_misuse", because: "principal" });
    expect((await world.record())?.state).toBe("pending");
  });

  test.each(["reply_lost", "request_lost"] as const)("is accepted when the %s", async (fault) => {
    const world = setUp();
    let faults = 1;
    const { submit } = world.start(quick, {
      plan: ({ port }) => (port === "accept" && faults-- > 0 ? fault : "proceed"),
    });
    const recordId = recordIdOf(await world.inTime(submit()));
    expect(await world.record()).toMatchObject({ id: recordId, state: "pending" });
    expect(world.hints).toEqual(["pending"]);
  });

  test("is refused when the store cannot be asked", async () => {
    const world = setUp();
    const { submit } = world.start(quick, {
      plan: ({ port }) => (port === "accept" ? "not_sent" : "proceed"),
    });
    await expect(submit()).rejects.toMatchObject({ code: "store-unavailable" });
    expect([await world.record(), world.hints]).toEqual([null, []]);
  });

  test("counts as a new key once, and not over the limit", async () => {
    const world = setUp();
    let points = 0;
    const limiter = { consume: async () => (++points > 1 ? Promise.reject({ msBeforeNext: 7 }) : {}) };
    const { submit, latchkey, operation } = world.start(quick, { limits: { newKeys: limiter } as never });
    expect(await submit()).toMatchObject({ kind: "accepted" });
    expect(await submit()).toMatchObject({ kind: "accepted" });
    const over = await latchkey.run(operation, { ...request, key: "k2" });
    expect(over).toMatchObject({ kind: "too_many_keys", because: "newKeys" });
    expect(world.hints).toEqual(["pending"]);
  });

  test("that no worker comes for answers 408, whether the record-cleaner has run or not", async () => {
    const world = setUp({ options: { pendingLimitMs: hour } });
    const { submit, workOff } = world.start(quick);
    const recordId = recordIdOf(await submit());
    await world.ports.clock.advance(hour - 1);
    expect(await submit()).toMatchObject({ kind: "accepted" });
    await world.ports.clock.advance(1);
    expect(await submit()).toEqual({ kind: "timeout", recordId });
    await workOff();
    expect((await world.record())?.state, "too late for a worker").toBe("pending");
    await world.memory.clean(10);
    expect((await world.record())?.state).toBe("failed");
    expect(await submit()).toEqual({ kind: "timeout", recordId });
  });

  test("whose attempts have all died is unknown", async () => {
    const world = setUp({ options: { attemptsMax: 1 } });
    const dying = world.start(never, { wrap: (store) => ({ ...store, renew: never }) });
    const recordId = recordIdOf(await dying.submit());
    void dying.workOff();
    await world.ports.clock.advance(leaseMs + 1);
    expect(await world.inTime(world.start(quick).submit())).toMatchObject({ kind: "unknown", recordId });
  });

  test("may begin a new life once the old one is forgotten", async () => {
    const world = setUp({ options: { retentionMs: hour } });
    const { submit, workOff } = world.start(quick);
    const first = recordIdOf(await submit());
    await world.inTime(workOff());
    await world.ports.clock.advance(hour);
    expect(recordIdOf(await submit())).not.toBe(first);
  });

  test("inside an attempt of its own key is refused", async () => {
    const world = setUp();
    const errors: unknown[] = [];
    const { submit, workOff } = world.start(async () => {
      await submit().catch((error: unknown) => errors.push(error));
      return {};
    });
    await submit();
    await world.inTime(workOff());
    expect(errors).toMatchObject([{ code: "nested-key" }]);
  });
});

describe("a worker's attempt", () => {
  test("runs under a lease that is renewed for as long as it takes", async () => {
    const world = setUp();
    const done = Promise.withResolvers<void>();
    const { submit, workOff } = world.start(async () => {
      await done.promise;
      return { status: 201 };
    });
    await submit();
    const working = workOff();
    await world.ports.clock.advance(leaseMs * 5);
    done.resolve();
    await working;
    expect(await submit()).toMatchObject({ kind: "replay", status: 201 });
  });

  test("counts its lease from before the claim was sent: a late one is confirmed before anything runs", async () => {
    const world = setUp();
    const ports: string[] = [];
    const { submit, claim, latchkey } = world.start(quick, {
      plan: ({ port }) => {
        ports.push(port);
        return "proceed";
      },
    });
    await submit();
    const sentAtMs = world.ports.clock.monotonicMs();
    const [record] = await claim();
    ports.length = 0;
    await world.ports.clock.advance(leaseMs - 100);
    const result = await world.inTime(runClaimed(latchkey.runtime, record as never, sentAtMs), 1_000);
    expect(result).toMatchObject({ kind: "executed" });
    expect(ports.slice(0, 2)).toEqual(["read", "renew"]);
  });

  test("whose lease was over before it began leaves the record to whoever has it", async () => {
    const world = setUp();
    let runs = 0;
    const counting: Work = async () => ({ status: 200 + runs++ });
    const { submit, claim, latchkey } = world.start(counting);
    await submit();
    const sentAtMs = world.ports.clock.monotonicMs();
    const [record] = await claim();
    await world.ports.clock.advance(leaseMs + 1);
    const done = Promise.withResolvers<RunAnswer>();
    const other = world.start(() => done.promise);
    const resumed = other.rescuer.runOnce();
    await world.ports.clock.advance(0);
    const late = await world.inTime(runClaimed(latchkey.runtime, record as never, sentAtMs), 1_000);
    expect(late).toMatchObject({ kind: "in_progress" });
    done.resolve({ status: 204 });
    await resumed;
    expect([runs, await submit()]).toMatchObject([0, { kind: "replay", status: 204 }]);
  });

  test("whose lease was over before it began, and whose record nobody has, goes on with it", async () => {
    const world = setUp();
    const { submit, claim, latchkey } = world.start(quick);
    const recordId = recordIdOf(await submit());
    const sentAtMs = world.ports.clock.monotonicMs();
    const [record] = await claim();
    await world.ports.clock.advance(leaseMs + 1);
    const result = await world.inTime(runClaimed(latchkey.runtime, record as never, sentAtMs), 1_000);
    expect(result).toMatchObject({ kind: "executed", recordId });
    expect(await submit(), "what was accepted is not forgotten").toMatchObject({ kind: "replay", recordId });
  });

  test("is unknown to a process without its operation", async () => {
    const world = setUp();
    const { submit, claim } = world.start(quick);
    await submit();
    const [record] = await claim();
    const stranger = createLatchkey<Tx>({ store: world.memory, ports: world.ports });
    expect(await runClaimed(stranger.runtime, record as never, 0)).toBeNull();
  });

  const refusals: readonly (readonly [string, Work, string])[] = [
    ["throws", failing, "handler-threw"],
    ["answers 503", async () => ({ status: 503 }), "status-503"],
    ["answers 429", async () => ({ status: 429 }), "status-429"],
    [
      "releases its answer",
      async (attempt) => {
        attempt.release();
        return { status: 422 };
      },
      "released",
    ],
  ];
  test.each(refusals)(
    "that %s is tried again ever later, and fails in the end",
    async (_, work, errorCode) => {
      const world = setUp();
      const starts: number[] = [];
      const { submit, workOff, rescuer } = world.start((...given) => {
        starts.push(world.ports.clock.monotonicMs());
        return work(...given);
      });
      const recordId = recordIdOf(await submit());
      await workOff();
      expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: errorCode });
      for (let second = 0; second < 10; second++) {
        await rescuer.runOnce();
        await world.ports.clock.advance(1_000);
      }
      expect(starts).toEqual([0, 1_000, 3_000]);
      expect(await world.record()).toMatchObject({ state: "failed", lastErrorCode: "attempts-spent" });
      expect(await submit()).toMatchObject({
        kind: "replay",
        recordId,
        status: 500,
        value: { code: "attempts-spent", status: 500, retryable: false, safe_new_key: true },
      });
      const last = work === failing ? ["attempt_failed", "attempt_failed", "attempt_failed"] : [];
      expect(world.typesOf("attempt_failed", "released")).toEqual(last);
    },
  );

  test("that fails after finished steps says that a new key may do them twice", async () => {
    const world = setUp({ options: { attemptsMax: 1 } });
    const { submit, workOff } = world.start(async (attempt) => {
      await attempt.phase("order", async (tx) => tx.insert("orders", {}));
      throw new Error("no");
    });
    await submit();
    await workOff();
    expect(await submit()).toMatchObject({ status: 500, value: { safe_new_key: false } });
  });

  test("answers 5xx where that is the answer, and refusals of the other side at once", async () => {
    const stored = setUp({ options: { serverErrors: "store" } });
    const five = stored.start(async () => ({ status: 503 }));
    await five.submit();
    await five.workOff();
    expect(await five.submit()).toMatchObject({ kind: "replay", status: 503 });
    const refused = setUp({
      send: () => {
        throw new EffectRefused({ message: "declined" });
      },
    });
    const declined = refused.start(threeSteps);
    await declined.submit();
    await refused.inTime(declined.workOff());
    expect(await declined.submit()).toMatchObject({ status: 502, value: { code: "effect-refused" } });
  });

  test("with a call in doubt is unknown, also when it was the last one", async () => {
    const world = setUp({ options: { attemptsMax: 1 }, kind: "none", send: () => "lost_after" });
    const { submit, workOff } = world.start(threeSteps);
    await submit();
    await world.inTime(workOff());
    expect(await submit()).toMatchObject({ kind: "unknown" });
  });

  test("that cannot read what it is to do is no failure of the work: a person sees it", async () => {
    const codec: Codec = {
      encode: (plain) => plain,
      decode: () => {
        throw new Error("no key");
      },
    };
    const world = setUp({ options: { attemptsMax: 2 }, codec });
    const { submit, workOff, rescuer } = world.start(quick);
    await submit();
    await workOff();
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "journal-unread" });
    await world.ports.clock.advance(1_000);
    await rescuer.runOnce();
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "journal-unread" });
  });

  test("goes on after the finished steps of one that died", async () => {
    const world = setUp();
    const dying = world.start(threeSteps, { send: () => "crash_after" });
    await dying.submit();
    void dying.workOff();
    await world.ports.clock.advance(leaseMs + 1);
    const next = world.start(threeSteps);
    await world.inTime(next.rescuer.runOnce());
    expect(await next.submit()).toMatchObject({ kind: "replay", status: 201, value: { chargeId: "ch_1" } });
    expect([world.memory.rows("orders").length, world.ledger.charges.length]).toEqual([1, 1]);
  });
});

describe("a mishap at every store call of a worker", () => {
  const enqueuing: Work = async (attempt, made, input) => {
    await attempt.phase("told", async () => attempt.enqueue(made.notify, { to: "a" }));
    return threeSteps(attempt, made, input);
  };
  const mishaps = ["crash_before", "crash_after", "request_lost", "reply_lost"] as const;
  const ends = ["resume", "reconcile"] as const;
  const rows = mishaps.flatMap((mishap) => ends.map((leaseEnd) => [mishap, leaseEnd] as const));
  test.each(rows)("%s, under %s: the work is done once, all of it", async (mishap, leaseEnd) => {
    const ports: string[] = [];
    for (let number = 1; ; number++) {
      const world = setUp({ options: { attemptsMax: 5, leaseEnd } });
      let calls = 0;
      let met: string | null = null;
      const plan: FaultPlan = ({ port }) => {
        if (port === "renew" || ++calls !== number) return "proceed";
        met = port;
        return mishap;
      };
      await world.start(enqueuing).submit();
      await world.workOn(world.start(enqueuing, { plan }), 1);
      await world.ports.clock.advance(leaseMs);
      const after = world.start(enqueuing);
      await world.workOn(after, 5);
      if (met === null) break;
      ports.push(met);
      const told = { kind: "replay", status: 201, value: { chargeId: "ch_1" } };
      expect(await after.submit(), `${mishap} of call ${number}, ${met}`).toMatchObject(told);
      expect([world.ledger.charges.length, world.memory.rows("orders").length]).toEqual([1, 1]);
      expect(world.memory.rows("settled")).toHaveLength(1);
      // The lease of a dispatcher that died on the way is longer than an attempt's.
      await world.ports.clock.advance(60_000);
      await world.workOn(after, 3);
      const enqueued = await world.memory.outbox?.ofRecord((await world.record())?.id ?? "");
      expect(enqueued?.map(({ state, step }) => [state, step])).toEqual([["delivered", "told"]]);
    }
    expect(new Set(ports)).toContain("claimPending");
    expect(new Set(ports)).toContain("commitPhase");
    expect(ports.length).toBeGreaterThan(10);
  });
});

describe("an answer that a delivery gives", () => {
  const awaiting: Work = async (attempt, { notify }) => {
    await attempt.phase("asked", async () => attempt.enqueue(notify, { to: "a" }));
    return attempt.answeredBy(notify);
  };

  test("completes the record that waits for it", async () => {
    const world = setUp();
    const { submit, workOff, dispatcher, rescuer } = world.start(awaiting);
    const recordId = recordIdOf(await submit());
    await workOff();
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "awaits-delivery" });
    expect(recordIdOf(await submit())).toBe(recordId);
    await world.ports.clock.advance(hour);
    expect(await rescuer.runOnce(), "nobody goes on with it").toMatchObject({ resumed: 0 });
    await world.inTime(dispatcher.runOnce());
    const answer = { kind: "replay", recordId, status: 201, value: { receipt: "to a" } };
    expect(await submit()).toEqual(answer);
    expect(world.hints).toEqual(["pending", "effects"]);
  });

  test("is not waited for for ever: where the delivery gave none, the operation has failed in the end", async () => {
    const world = setUp({ notify: { onDelivered: async () => {} } });
    const { submit, workOff, dispatcher, rescuer } = world.start(awaiting);
    await submit();
    await workOff();
    await world.inTime(dispatcher.runOnce());
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "awaits-delivery" });
    for (let round = 0; round < 10; round++) {
      await world.ports.clock.advance(25 * hour);
      await world.inTime(rescuer.runOnce());
    }
    expect(await world.record()).toMatchObject({ state: "failed", lastErrorCode: "attempts-spent" });
  });

  test("comes when the attempt has ended, also where the delivery was faster", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<void>();
    const process = world.start(async (attempt, made, input) => {
      const answer = await awaiting(attempt, made, input);
      await gate.promise;
      return answer;
    });
    await process.submit();
    const working = process.workOff();
    await world.ports.clock.advance(0);
    await world.inTime(process.dispatcher.runOnce(), 1_000);
    expect((await world.record())?.state).toBe("in_progress");
    gate.resolve();
    await working;
    await world.workOn(process, 20);
    expect(await process.submit()).toMatchObject({ kind: "replay", status: 201 });
  });

  test("is waited for by the attempt that follows one that died, too", async () => {
    const world = setUp();
    const dying = world.start(
      async (attempt, made, input) => {
        await awaiting(attempt, made, input);
        return never();
      },
      { wrap: (store) => ({ ...store, renew: never }) },
    );
    await dying.submit();
    void dying.workOff();
    await world.ports.clock.advance(leaseMs + 1);
    const next = world.start(awaiting);
    await world.inTime(next.rescuer.runOnce());
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "awaits-delivery" });
    await world.inTime(next.dispatcher.runOnce());
    expect(await next.submit()).toMatchObject({ kind: "replay", status: 201 });
  });

  const errorsOf = (world: ReturnType<typeof setUp>) =>
    world.events.flatMap((event) => (event.type === "attempt_failed" ? [String(event.error)] : []));

  test.each<readonly [string, Work, Setting, string]>([
    ["nothing was enqueued", async (attempt, { notify }) => attempt.answeredBy(notify), {}, "was enqueued"],
    [
      "nothing answers",
      awaiting,
      { notify: { onDelivered: undefined } as never },
      "has no onDelivered to give the answer",
    ],
    [
      "it is a last phase's",
      async (attempt, { notify }) =>
        attempt.finish("asked", async () => {
          attempt.enqueue(notify, { to: "a" });
          return attempt.answeredBy(notify);
        }),
      {},
      "status is between",
    ],
  ])("is refused where %s", async (_, work, setting, message) => {
    const world = setUp({ options: { attemptsMax: 1 }, ...setting });
    const { submit, workOff } = world.start(work);
    await submit();
    await workOff();
    expect(errorsOf(world)).toEqual([expect.stringContaining(message)]);
    expect((await world.record())?.state).toBe("failed");
  });

  test("is refused where the effect is another latchkey's", async () => {
    const world = setUp({ options: { attemptsMax: 1 } });
    const foreign = world.start(quick).notify;
    const { submit, workOff } = world.start(async (attempt) => attempt.answeredBy(foreign));
    await submit();
    await workOff();
    expect(errorsOf(world)).toEqual([expect.stringContaining("was not made by this latchkey")]);
  });

  test("that never came is not waited for again: the attempts are spent on it", async () => {
    const world = setUp({ options: { attemptsMax: 2 }, notify: { onDelivered: async () => {} } });
    const dying = world.start(
      async (attempt, made, input) => {
        await awaiting(attempt, made, input);
        return never();
      },
      { wrap: (store) => ({ ...store, renew: never }) },
    );
    await dying.submit();
    void dying.workOff();
    await world.ports.clock.advance(leaseMs + 1);
    const next = world.start(awaiting);
    await world.inTime(next.dispatcher.runOnce());
    await world.inTime(next.rescuer.runOnce());
    expect(errorsOf(world)).toEqual([expect.stringContaining("gave no answer")]);
    expect((await world.record())?.state).toBe("failed");
  });

  test("is for deferred operations alone", async () => {
    const world = setUp();
    const { latchkey, notify } = world.start(quick);
    const leased = latchkey.operation("leased", {
      execution: "lease",
      version: "1",
      run: async (_: object, attempt) => (attempt as Attempt).answeredBy(notify),
    });
    await expect(latchkey.run(leased, { ...request, input: {} })).rejects.toThrow("answeredBy is for");
  });

  test("means something to the record that waits, and to no other", async () => {
    const world = setUp();
    const { latchkey, submit, workOff } = world.start(awaiting);
    const { runtime } = latchkey;
    const recordId = recordIdOf(await submit());
    const said = async (record: LatchkeyRecord | null) => awaitedBy(runtime, record, recordId);
    const pending = await world.record();
    expect([await said(null), await said(pending)]).toEqual(["none", "later"]);
    await workOff();
    const waits = (await world.record()) as LatchkeyRecord;
    expect(await said(waits)).toBe("answer");
    expect(await said({ ...waits, id: "another life" })).toBe("none");
    expect(await said({ ...waits, lastErrorCode: "handler-threw" } as LatchkeyRecord)).toBe("later");
    expect(await said({ ...waits, operation: "not defined here" })).toBe("answer");
    latchkey.operation("direct", { execution: "lease" });
    expect(await said({ ...waits, operation: "direct" })).toBe("none");
  });
});
