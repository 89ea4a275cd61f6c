/** What a run would send, printed before it is sent. */
import { allChecks } from "./checks/all.ts";
import { baselineRequestsMax } from "./probe.ts";
import type { ProbeSettings } from "./settings.ts";

export interface Plan {
  readonly targets: readonly PlannedTarget[];
  readonly requestsMax: number;
}

interface PlannedTarget {
  readonly name: string;
  readonly url: string;
  readonly requestsMax: number;
  readonly checks: readonly PlannedCheck[];
}

interface PlannedCheck {
  readonly name: string;
  readonly about: string;
  readonly requestsMax: number;
  /** Why it will not run; null if it will. */
  readonly obstacle: string | null;
}

/** After a request without an answer, one more shows whether others are answered. */
const controlsPerCheckMax = 1;

/** Requests of the operator's count: before and after everything that is counted. */
const countsPerCheckMax = 6;

export function planOf(settings: ProbeSettings): Plan {
  const chosen = allChecks.filter(({ name }) => settings.checks.includes(name));
  const counts = settings.count === null ? 0 : countsPerCheckMax;
  const targets = settings.targets.map((target): PlannedTarget => {
    const checks = chosen.map((check): PlannedCheck => {
      const obstacle = check.obstacle(target, settings);
      const requestsMax = obstacle === null ? check.requestsMax(settings) + counts + controlsPerCheckMax : 0;
      return { name: check.name, about: check.about, requestsMax, obstacle };
    });
    const requestsMax = checks.reduce((sum, check) => sum + check.requestsMax, baselineRequestsMax);
    return { name: target.name, url: target.url.href, requestsMax, checks };
  });
  const requestsMax = targets.reduce((sum, target) => sum + target.requestsMax, 0);
  return { targets, requestsMax };
}

/** One line, printed before every run. */
export function planLine({ targets, requestsMax }: Plan, settings: ProbeSettings): string {
  const where = targets.map(({ name, url }) => `${name.split(" ")[0]} ${url}`).join(", ");
  const most = Math.min(requestsMax, settings.requestsMax);
  return `Sends at most ${most} requests (at most ${settings.requestsPerSecond} per second) to ${where}`;
}

/** The complete plan, for `--dry-run`. */
export function planText(plan: Plan, settings: ProbeSettings): string {
  const { keyHeader, profile, concurrency } = settings;
  return [
    `${planLine(plan, settings)}, and nothing to any other address.`,
    `Profile ${profile.name}, key in ${keyHeader}, ${concurrency} simultaneous requests in races. Redirects are not followed.`,
    ...(settings.count === null ? [] : [`Effects are counted by GET ${settings.count.url.href}.`]),
    ...plan.targets.flatMap((target, index) => {
      const body = settings.targets[index]?.body ?? "";
      return [
        "",
        `${target.name}  ${target.url}`,
        `  body: ${body === "" ? "none" : body}`,
        `  ${"baseline".padEnd(16)} ${String(baselineRequestsMax).padStart(4)}  accepted requests under different keys`,
        ...target.checks.map(({ name, about, requestsMax, obstacle }) =>
          obstacle === null
            ? `  ${name.padEnd(16)} ${String(requestsMax).padStart(4)}  ${about}`
            : `  ${name.padEnd(16)}    -  skipped: ${obstacle}`,
        ),
      ];
    }),
    ...(settings.leftOut.length === 0 ? [] : [""]),
    ...settings.leftOut.map(({ name, reason }) => `left out: ${name}: ${reason}`),
    "",
    "Nothing was sent.",
  ].join("\n");
}
