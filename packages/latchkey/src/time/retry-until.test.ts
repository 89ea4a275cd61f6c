/** What is repeated, for how long, and what becomes of a try that never settles. */
import { expect, test, vi } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { StoreError } from "../errors.ts";
import { pause } from "../ports.ts";
import { retryStoreCall, retryUntil } from "./retry-until.ts";

const never = () => new Promise<never>(() => {});
const failing = () => Promise.reject(new StoreError("not_sent"));

test("returns what the first try that does not fail returns, and which one that was", async () => {
  const ports = manualPorts();
  const ask = vi
    .fn()
    .mockImplementationOnce(failing)
    .mockImplementationOnce(failing)
    .mockResolvedValue("done");
  const result = retryUntil(ports, { untilMs: 10_000 }, ask);
  await ports.clock.advance(5_000);
  expect(await result).toEqual({ kind: "returned", value: "done", tries: 3 });
});

test("gives up when the time is over, with the error of the last try", async () => {
  const ports = manualPorts();
  const error = new StoreError("rolled_back");
  const result = retryUntil(ports, { untilMs: 1_000 }, () => Promise.reject(error));
  await ports.clock.advance(1_001);
  expect(await result).toEqual({ kind: "gave_up", error });
});

test("a try that never settles ends with the time, and was given all of it", async () => {
  const ports = manualPorts();
  const ask = vi.fn(never);
  const result = retryUntil(ports, { untilMs: 700 }, ask);
  await ports.clock.advance(700);
  expect(await result).toEqual({ kind: "gave_up", error: undefined });
  expect(ask.mock.calls).toEqual([[700]]);
});

test("a signal abandons the running try and those to come", async () => {
  const ports = manualPorts();
  const abort = new AbortController();
  const ask = vi.fn(never);
  const result = retryUntil(ports, { untilMs: 10_000, signal: abort.signal }, ask);
  await ports.clock.advance(10);
  abort.abort();
  expect(await result).toEqual({ kind: "gave_up", error: undefined });
  expect(ask).toHaveBeenCalledTimes(1);
});

test("a signal that aborts during the pause is followed by no try", async () => {
  const ports = manualPorts();
  const abort = new AbortController();
  const ask = vi.fn(failing);
  const result = retryUntil(ports, { untilMs: 10_000, signal: abort.signal }, ask);
  await ports.clock.advance(1);
  abort.abort();
  expect(await result).toMatchObject({ kind: "gave_up" });
  await ports.clock.advance(10_000);
  expect(ask).toHaveBeenCalledTimes(1);
});

test("no more tries than it may make", async () => {
  const ports = manualPorts();
  const ask = vi.fn(failing);
  const result = retryUntil(ports, { untilMs: 60_000, triesMax: 3 }, ask);
  await ports.clock.advance(60_000);
  expect(await result).toMatchObject({ kind: "gave_up" });
  expect(ask).toHaveBeenCalledTimes(3);
});

test("an error that is not worth another try is thrown at once", async () => {
  const ports = manualPorts();
  const ask = vi.fn(() => Promise.reject(new TypeError("a mistake")));
  const isRetryable = (error: unknown) => error instanceof StoreError;
  await expect(retryUntil(ports, { untilMs: 1_000, isRetryable }, ask)).rejects.toThrow("a mistake");
  expect(ask).toHaveBeenCalledTimes(1);
});

test("a store call is tried five times within three seconds, and then throws the last error", async () => {
  const ports = manualPorts({ fraction: () => 1 });
  const last = new StoreError("rolled_back");
  const run = vi.fn(failing);
  run.mockImplementation(() => (run.mock.calls.length === 5 ? Promise.reject(last) : failing()));
  const ended = expect(retryStoreCall(ports, run)).rejects.toBe(last);
  await ports.clock.advance(3_000);
  await ended;
  expect(run).toHaveBeenCalledTimes(5);
});

test("a store call that never settles ends in doubt, also after tries that failed", async () => {
  const ports = manualPorts();
  const run = vi.fn(never).mockImplementationOnce(failing);
  const inDoubt = { name: "StoreError", certainty: "in_doubt" };
  const ended = expect(retryStoreCall(ports, run)).rejects.toMatchObject(inDoubt);
  await ports.clock.advance(120_000);
  await ended;
  expect(run).toHaveBeenCalledTimes(2);
});

test("a store call of which a try was in doubt is in doubt, whatever the last try says", async () => {
  const ports = manualPorts();
  const doubt = new StoreError("in_doubt");
  const run = vi.fn(() => Promise.reject(new StoreError("not_sent")));
  run.mockImplementationOnce(() => Promise.reject(doubt));
  const ended = expect(retryStoreCall(ports, run)).rejects.toBe(doubt);
  await ports.clock.advance(3_000);
  await ended;
  expect(run).toHaveBeenCalledTimes(5);
});

test("a store call that ends with Postgres's own limits of twenty seconds is tried five times, too", async () => {
  const ports = manualPorts({ fraction: () => 1 });
  const run = vi.fn(async () => {
    await pause(ports.clock, 20_000);
    if (run.mock.calls.length < 5) throw new StoreError("in_doubt");
    return "done";
  });
  const result = retryStoreCall(ports, run);
  await ports.clock.advance(104_000);
  expect(await result).toBe("done");
});

test("a store call's other errors are thrown at once", async () => {
  const run = vi.fn(() => Promise.reject(new TypeError("a mistake")));
  await expect(retryStoreCall(manualPorts(), run)).rejects.toThrow("a mistake");
  expect(run).toHaveBeenCalledTimes(1);
});
