/**
 * A circuit breaker's state, without a store and without a clock of its own: closed (every call may go to the store), open
 * (none may, until a time), half-open (one may, as a probe).
 */
import { checkOptions, type OptionNames } from "../known-options.ts";

export interface CircuitOptions {
  /** How many failures in a row open it. Default 5. */
  readonly failureThreshold?: number;
  /** How long it stays open, in milliseconds, and how long a probe may take. Default 1,000. */
  readonly openMs?: number;
}

const circuitOptions = {
  failureThreshold: true,
  openMs: true,
} as const satisfies OptionNames<CircuitOptions>;

export type CircuitSettings = Required<CircuitOptions>;

/** Times are milliseconds on the process's monotonic clock. */
export type CircuitState =
  | { readonly kind: "closed"; readonly sinceMs: number; readonly failures: number }
  | { readonly kind: "open"; readonly untilMs: number }
  /** A probe is under way; it counts as failed for others at `untilMs`, so that a reply that never comes does not block others. */
  | { readonly kind: "half-open"; readonly sinceMs: number; readonly untilMs: number };

export const closed: CircuitState = { kind: "closed", sinceMs: Number.NEGATIVE_INFINITY, failures: 0 };

/** @throws {TypeError} when an option is out of range. */
export function resolveCircuit(options: CircuitOptions = {}): CircuitSettings {
  checkOptions("circuitBreaker", options, circuitOptions);
  const settings = { failureThreshold: options.failureThreshold ?? 5, openMs: options.openMs ?? 1_000 };
  for (const [field, value] of Object.entries(settings)) {
    if (!Number.isSafeInteger(value) || value <= 0) {
      throw new TypeError(`circuitBreaker.${field} must be a positive whole number (got ${value})`);
    }
  }
  return settings;
}

/** Whether a call to the store may be made at `nowMs`, and the state after that. The one call that is let through while half-open is the probe. */
export function enter(
  state: CircuitState,
  settings: CircuitSettings,
  nowMs: number,
): { readonly state: CircuitState; readonly admitted: boolean; readonly probe: boolean } {
  if (state.kind === "closed") return { state, admitted: true, probe: false };
  if (nowMs < state.untilMs) return { state, admitted: false, probe: false };
  const probing: CircuitState = { kind: "half-open", sinceMs: nowMs, untilMs: nowMs + settings.openMs };
  return { state: probing, admitted: true, probe: true };
}

/** The state after a call that began at `begunMs`. A call that began before the current state does not change it. */
export function afterCall(
  state: CircuitState,
  settings: CircuitSettings,
  call: { readonly ok: boolean; readonly begunMs: number },
  nowMs: number,
): CircuitState {
  if (state.kind === "open" || call.begunMs < state.sinceMs) return state;
  if (call.ok) {
    const news = state.kind === "half-open" || state.failures > 0;
    return news
      ? { kind: "closed", sinceMs: state.kind === "closed" ? state.sinceMs : nowMs, failures: 0 }
      : state;
  }
  const failures = state.kind === "closed" ? state.failures + 1 : settings.failureThreshold;
  return failures >= settings.failureThreshold
    ? { kind: "open", untilMs: nowMs + settings.openMs }
    : { kind: "closed", sinceMs: state.kind === "closed" ? state.sinceMs : nowMs, failures };
}

/** The state after a probe that began at `begunMs` ended without having asked the store: the next may try at once. */
export function leave(state: CircuitState, begunMs: number): CircuitState {
  return state.kind === "half-open" && state.sinceMs === begunMs ? { kind: "open", untilMs: begunMs } : state;
}
