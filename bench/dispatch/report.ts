/** Medians of dispatch, and their tables. */
import type { DispatchMeasurement } from "./run.ts";
import type { QueueName } from "./subject.ts";

export interface DispatchResult {
  readonly name: QueueName;
  readonly jobsPerSecond: number | null;
  readonly workerMicros: number | null;
  readonly databaseMicros: number | null;
  readonly wakeUpP50Ms: number;
  readonly wakeUpP99Ms: number;
  readonly answeredP50Ms: number;
  readonly answeredP99Ms: number;
  /** Each round's throughput. */
  readonly rounds: readonly (number | null)[];
}

export function summarizeDispatch(measurements: readonly DispatchMeasurement[]): DispatchResult[] {
  const groups = Map.groupBy(measurements, ({ name }) => name);
  return [...groups].map(([name, group]) => {
    const median = (pick: (one: DispatchMeasurement) => number | null) => {
      const values = group.map(pick).filter((value) => value !== null);
      return values.length === 0 ? null : quantile(values, 0.5);
    };
    const wakeUps = group.flatMap(({ wakeUpMs }) => wakeUpMs);
    const answered = group.flatMap(({ answeredMs }) => answeredMs);
    return {
      name,
      jobsPerSecond: median((one) => one.jobsPerSecond),
      workerMicros: median((one) => one.workerMicros),
      databaseMicros: median((one) => one.databaseMicros),
      wakeUpP50Ms: quantile(wakeUps, 0.5),
      wakeUpP99Ms: quantile(wakeUps, 0.99),
      answeredP50Ms: quantile(answered, 0.5),
      answeredP99Ms: quantile(answered, 0.99),
      rounds: group.map((one) => one.jobsPerSecond),
    };
  });
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** One table, as Markdown. */
export function renderDispatch(results: readonly DispatchResult[]): string {
  const own = results.find(({ name }) => name === "latchkey")?.jobsPerSecond ?? null;
  const columns = [
    "Queue",
    "jobs/s",
    "Latchkey / queue",
    "worker CPU µs",
    "database CPU µs",
    "wake-up p50 ms",
    "wake-up p99 ms",
    "answered p50 ms",
    "answered p99 ms",
  ];
  const rows = results.map((result) => [
    result.name.startsWith("latchkey") ? `**${result.name}**` : result.name,
    result.jobsPerSecond?.toFixed(0) ?? "",
    own === null || result.jobsPerSecond === null ? "" : `${(own / result.jobsPerSecond).toFixed(1)} ×`,
    result.workerMicros?.toFixed(0) ?? "",
    result.databaseMicros?.toFixed(0) ?? "",
    result.wakeUpP50Ms.toFixed(1),
    result.wakeUpP99Ms.toFixed(1),
    result.answeredP50Ms.toFixed(1),
    result.answeredP99Ms.toFixed(1),
  ]);
  return [columns, columns.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
