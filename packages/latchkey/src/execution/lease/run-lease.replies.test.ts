/** Replies of the store that come late, or never. */
import { describe, expect, test } from "vitest";
import { answers, gated, leaseMs, patienceMs, setUp } from "../../../../../test/support/lease-world.ts";
import { StoreError } from "../../errors.ts";
import type { MemoryTransaction } from "../../stores/memory.ts";
import type { Store } from "../../stores/store.ts";
import { leaseRescuer } from "../../workers/lease-rescuer.ts";

describe("an admission whose reply comes after its lease has ended", () => {
  /** Creates the record at once; the reply of the first creation waits for `reply`. */
  function late() {
    const reply = Promise.withResolvers<void>();
    const wrap = (store: Store<MemoryTransaction>): Partial<Store<MemoryTransaction>> => {
      let first = true;
      return {
        async create(...given) {
          const created = await store.create(...given);
          if (first) {
            first = false;
            await reply.promise;
          }
          return created;
        },
      };
    };
    return { wrap, reply: reply.resolve };
  }

  test("starts no handler when others have settled the record meanwhile", async () => {
    const { wrap, reply } = late();
    const { submit, ports, starts, other } = setUp({}, wrap);
    const first = submit(answers);
    await ports.clock.advance(leaseMs);
    expect(await leaseRescuer(other).runOnce()).toEqual({ found: 1, rescued: 1, resumed: 0 });
    reply();
    await ports.clock.advance(1_000);
    expect(await first).toMatchObject({ kind: "unknown" });
    expect(starts()).toBe(0);
  });

  test.each([
    // Nearer to its end than an owner may go.
    ["nearly", -1],
    ["quite", 0],
  ])("and has %s ended: the handler starts under a whole lease, renewed or new", async (_what, afterMs) => {
    const { wrap, reply } = late();
    const { submit, ports, starts } = setUp({}, wrap);
    const { work, started, release } = gated();
    const first = submit(work);
    await ports.clock.advance(leaseMs + afterMs);
    reply();
    await ports.clock.advance(100);
    const signal = await started;
    await ports.clock.advance(leaseMs * 2);
    expect(signal.aborted).toBe(false);
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(starts()).toBe(1);
  });

  // Found by P1.
  test("after a slow look-up: no earlier write can take the attempt away from its handler", async () => {
    const [looked, arrival] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let gone: Promise<unknown> = Promise.resolve();
    let looks = 0;
    const { submit, submitElsewhere, ports, starts } = setUp({}, (store) => ({
      async read(...given) {
        looks += 1;
        if (looks === 1) await looked.promise;
        return store.read(...given);
      },
      // Still on its way when its caller gives it up.
      async end(...given) {
        if (given[3].event !== "release") return store.end(...given);
        gone = arrival.promise.then(() => store.end(...given));
        throw new StoreError("in_doubt");
      },
    }));
    const { work, started, release } = gated();
    const first = submit(work);
    await ports.clock.advance(leaseMs);
    looked.resolve();
    await ports.clock.advance(100);
    await started;
    arrival.resolve();
    await gone;
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress" });
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(starts()).toBe(1);
  });

  test("beats at once when little of the lease is left", async () => {
    const { wrap, reply } = late();
    const { submit, ports } = setUp({}, wrap);
    const { work, started, release } = gated();
    const first = submit(work);
    await ports.clock.advance(leaseMs * 0.8);
    reply();
    const signal = await started;
    await ports.clock.advance(leaseMs * 2);
    expect(signal.aborted).toBe(false);
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
  });
});

test("a beat that meets the attempt's own end makes neither the end doubtful nor the lease lost", async () => {
  const reply = Promise.withResolvers<void>();
  let ends = 0;
  const { submit, ports, events } = setUp({}, (store) => ({
    async end(...given) {
      ends += 1;
      const written = await store.end(...given);
      if (ends === 1) await reply.promise;
      return written;
    },
  }));
  const first = submit(answers);
  await ports.clock.advance(leaseMs / 3);
  reply.resolve();
  await ports.clock.advance(100);
  expect(await first).toMatchObject({ kind: "executed", stored: true });
  expect(events.map(({ type }) => type)).toEqual(["reserved", "executed"]);
});

describe("a reply that is lost", () => {
  /** Does the write, then loses its reply, `times` times. */
  function losing<A extends unknown[], R>(write: (...given: A) => Promise<R>, times: number) {
    let left = times;
    return async (...given: A): Promise<R> => {
      const result = await write(...given);
      left -= 1;
      if (left >= 0) throw new StoreError("in_doubt");
      return result;
    };
  }

  test("at admission: the record is recognised as its own, and the handler runs once", async () => {
    const { submit, ports, starts } = setUp({}, (store) => ({ create: losing(store.create, 1) }));
    const first = submit(answers);
    await ports.clock.advance(100);
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(starts()).toBe(1);
  });

  test("at the end: the answer is still the owner's", async () => {
    const { submit, ports } = setUp({}, (store) => ({ end: losing(store.end, 1) }));
    const first = submit(answers);
    await ports.clock.advance(100);
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(await submit(answers)).toMatchObject({ kind: "replay" });
  });

  test("at the end, and the call never settles: in doubt, and the lease is not kept for ever", async () => {
    const { submit, submitElsewhere, ports } = setUp({}, () => ({ end: () => new Promise<never>(() => {}) }));
    const first = submit(answers);
    await ports.clock.advance(patienceMs + 100);
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
    await ports.clock.advance(leaseMs);
    const second = submitElsewhere(answers);
    await ports.clock.advance(100);
    expect(await second).toMatchObject({ kind: "unknown" });
  });

  test("at the end, while the lease is lost: one last try, and in doubt", async () => {
    const { submit, ports, events } = setUp({}, () => ({
      renew: async () => {
        throw new StoreError("not_sent");
      },
      end: () => new Promise<never>(() => {}),
    }));
    const first = submit(answers);
    await ports.clock.advance(leaseMs - 1 + 2_000);
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
    expect(events.map((event) => event.type)).toContain("lease_lost");
  });

  test("at the end, whose write waits longer than a lease: written, because the lease is kept", async () => {
    const turn = Promise.withResolvers<void>();
    const { submit, ports } = setUp({}, (store) => ({
      end: async (...given) => {
        await turn.promise;
        return store.end(...given);
      },
    }));
    const first = submit(answers);
    await ports.clock.advance(leaseMs * 2);
    turn.resolve();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
  });

  test("at the end for good: in doubt, never success", async () => {
    const { submit, ports } = setUp({}, () => ({
      end: async () => {
        throw new StoreError("in_doubt");
      },
    }));
    const first = submit(answers);
    await ports.clock.advance(patienceMs + 100);
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
  });
});
