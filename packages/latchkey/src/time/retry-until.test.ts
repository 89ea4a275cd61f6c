/** What is repeated, for how long, and what becomes of a try that never settles. */
import { expect, test, vi } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { StoreError } from "../errors.ts";
import { retryUntil } from "./retry-until.ts";

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
