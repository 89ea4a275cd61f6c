import fc from "fast-check";
import { expect, test } from "vitest";
import { afterCall, type CircuitState, closed, enter, leave, resolveCircuit } from "./circuit-breaker.ts";

const settings = resolveCircuit({ failureThreshold: 3, openMs: 100 });
const fail = (state: CircuitState, at: number, begunMs = at) =>
  afterCall(state, settings, { ok: false, begunMs }, at);
const succeed = (state: CircuitState, at: number, begunMs = at) =>
  afterCall(state, settings, { ok: true, begunMs }, at);
const opened = [1, 2, 3].reduce((state, at) => fail(state, at), closed);

test("opens at the threshold, for as long as it is set", () => {
  expect(fail(fail(closed, 1), 2)).toMatchObject({ kind: "closed", failures: 2 });
  expect(opened).toEqual({ kind: "open", untilMs: 103 });
  expect(enter(opened, settings, 102)).toEqual({ state: opened, admitted: false, probe: false });
});

test("a success in between starts the count again", () => {
  expect(fail(fail(succeed(fail(fail(closed, 1), 2), 3), 4), 5)).toMatchObject({
    kind: "closed",
    failures: 2,
  });
});

test("half-open lets one in: its failure opens again, its success closes", () => {
  const { state, admitted, probe } = enter(opened, settings, 103);
  expect([admitted, probe]).toEqual([true, true]);
  expect(enter(state, settings, 104).admitted).toBe(false);
  expect(fail(state, 110)).toEqual({ kind: "open", untilMs: 210 });
  expect(succeed(state, 110)).toEqual({ kind: "closed", sinceMs: 110, failures: 0 });
});

test("a probe that gets no reply gives way to another", () => {
  const { state } = enter(opened, settings, 103);
  expect(enter(state, settings, 203)).toMatchObject({ admitted: true, probe: true });
});

test("a probe that ended without asking gives way at once", () => {
  const { state } = enter(opened, settings, 103);
  expect(enter(leave(state, 103), settings, 103).admitted).toBe(true);
  expect(leave(closed, 103)).toBe(closed);
});

test("calls from before say nothing", () => {
  const { state } = enter(opened, settings, 103);
  expect(fail(state, 110, 102)).toBe(state);
  expect(succeed(state, 110, 102)).toBe(state);
  expect(succeed(opened, 50)).toBe(opened);
});

test("whatever happens, it lets somebody in again, and no two probes at a time", () => {
  const step = fc.record({
    ok: fc.boolean(),
    waitMs: fc.nat(150),
    enters: fc.boolean(),
    lateMs: fc.nat(300),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let state = closed;
      let now = 0;
      let probeUntil = Number.NEGATIVE_INFINITY;
      for (const { ok, waitMs, enters, lateMs } of steps) {
        now += waitMs;
        if (enters) {
          const entered = enter(state, settings, now);
          if (entered.probe && state.kind === "half-open") expect(now).toBeGreaterThanOrEqual(probeUntil);
          if (entered.probe) probeUntil = now + settings.openMs;
          state = entered.state;
        } else state = afterCall(state, settings, { ok, begunMs: now - lateMs }, now);
        expect(enter(state, settings, now + settings.openMs).admitted).toBe(true);
      }
    }),
  );
});

test.each([{ failureThreshold: 0 }, { openMs: -1 }, { openMs: Number.NaN }, { failureThreshold: 1.5 }])(
  "out of range: %j",
  (options) => {
    expect(() => resolveCircuit(options)).toThrow(TypeError);
  },
);
