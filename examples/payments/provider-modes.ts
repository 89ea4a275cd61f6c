/** How the simulated provider behaves: for everyone (`PUT /mode`), or for one request (header `X-Provider-Mode`). */

export const modes = {
  ok: "charges and answers",
  refuse: "refuses permanently: 402, nothing is charged",
  slow: "waits `slowMs`, then charges and answers",
  "time-out-after-charging": "charges, then never answers",
  down: "503 before anything happens",
  forgetful: "breaks its promise: charges again for a key it has seen",
} as const;

export type Mode = keyof typeof modes;

export interface Behaviour {
  readonly mode: Mode;
  readonly slowMs: number;
}

export const wellBehaved: Behaviour = { mode: "ok", slowMs: 2_000 };

/** Null if it is not a behaviour. Fields that are missing are taken from `from`. */
export function behaviourOf(value: unknown, from: Behaviour): Behaviour | null {
  const { mode = from.mode, slowMs = from.slowMs } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (!isMode(mode) || !Number.isSafeInteger(slowMs) || Number(slowMs) < 0) return null;
  return { mode, slowMs: Number(slowMs) };
}

function isMode(value: unknown): value is Mode {
  return typeof value === "string" && Object.hasOwn(modes, value);
}
