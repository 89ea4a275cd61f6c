/** Tests any running HTTP API for idempotency from outside; see the command `latchkey-probe --help`. */

export { type Fault, type FaultCode, type FaultKind, faultTable } from "./faults.ts";
export { type Plan, planOf } from "./plan.ts";
export { processTiming, type Timing } from "./ports.ts";
export { type ProbeEvents, runProbe } from "./probe.ts";
export { type Profile, type ProfileName, profiles } from "./profiles.ts";
export type { CheckReport, Exchange, Report, TargetReport, Verdict } from "./report/report.ts";
export type { EffectCount, ProbeSettings } from "./settings.ts";
export type { HeaderLine, Target } from "./target.ts";
