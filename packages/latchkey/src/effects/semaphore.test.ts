import { describe, expect, test } from "vitest";
import { createSemaphore } from "./semaphore.ts";

const { signal } = new AbortController();

describe("permits without waiting", () => {
  test("no more are taken than are free, and as many are free again as were given back", () => {
    const semaphore = createSemaphore(5);
    expect([semaphore.takeFree(3), semaphore.free()]).toEqual([3, 2]);
    expect([semaphore.takeFree(3), semaphore.free()]).toEqual([2, 0]);
    expect([semaphore.takeFree(1), semaphore.free()]).toEqual([0, 0]);
    semaphore.giveBack(4);
    expect([semaphore.free(), semaphore.takeFree(0), semaphore.takeFree(9)]).toEqual([4, 0, 4]);
    semaphore.giveBack(0);
    expect(semaphore.free()).toBe(0);
    semaphore.giveBack(5);
    expect(semaphore.free()).toBe(5);
  });

  test("they count together with those that calls waited for", async () => {
    const semaphore = createSemaphore(3);
    const release = await semaphore.take(signal);
    expect([semaphore.takeFree(3), semaphore.free()]).toEqual([2, 0]);
    release?.();
    expect(semaphore.free()).toBe(1);
  });
});

describe("permits that are waited for", () => {
  async function waitingFor(count: number) {
    const semaphore = createSemaphore(3);
    semaphore.takeFree(3);
    const served: number[] = [];
    const releases: (() => void)[] = [];
    const take = async (at: number) => {
      const release = await semaphore.take(signal);
      served.push(at);
      if (release !== null) releases.push(release);
    };
    for (let at = 0; at < count; at++) void take(at);
    await settled();
    return { semaphore, served, releases };
  }

  const settled = () => new Promise((resolve) => setImmediate(resolve));

  test("as many callers go on as permits were given back, those that waited longest first", async () => {
    const { semaphore, served } = await waitingFor(4);
    expect(served).toEqual([]);
    semaphore.giveBack(2);
    await settled();
    expect([served, semaphore.free()]).toEqual([[0, 1], 0]);
    semaphore.giveBack(1);
    await settled();
    expect([served, semaphore.free()]).toEqual([[0, 1, 2], 0]);
  });

  test("permits that no caller waits for stay free", async () => {
    const { semaphore, served } = await waitingFor(1);
    semaphore.giveBack(3);
    await settled();
    expect([served, semaphore.free()]).toEqual([[0], 2]);
  });

  test("releasing one twice does nothing", async () => {
    const { semaphore, served, releases } = await waitingFor(3);
    semaphore.giveBack(1);
    await settled();
    const [release] = releases;
    release?.();
    release?.();
    await settled();
    expect([served, semaphore.free()]).toEqual([[0, 1], 0]);
  });

  test("a caller that aborts gets none, and the next one gets it", async () => {
    const semaphore = createSemaphore(1);
    semaphore.takeFree(1);
    const gone = new AbortController();
    const first = semaphore.take(gone.signal);
    const second = semaphore.take(signal);
    gone.abort();
    expect(await first).toBeNull();
    semaphore.giveBack(1);
    expect(await second).not.toBeNull();
    expect(semaphore.free()).toBe(0);
  });
});
