/** Checks the Redis servers that a store uses. */
import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import { clockFinding, type Finding, failed, notChecked, ok, warning } from "../examination.ts";
import { isReply } from "./certainty.ts";
import { evictionProblem, type Report, reportOf, versionProblem, warningsOf } from "./check-server.ts";
import { listOf, numberOf, textOf } from "./replies.ts";
import type { Runner } from "./runner.ts";
import { partitionScripts } from "./scripts/partition.ts";

export async function examineRedis(runner: Runner, clock: Clock): Promise<readonly Finding[]> {
  const askedAt = clock.wallMs();
  let replies: readonly unknown[];
  try {
    replies = await runner.askAll(partitionScripts.inspect);
  } catch (error) {
    return [unreachable(error)];
  }
  const answeredAt = clock.wallMs();
  const servers = new Map<string | undefined, Server>();
  for (const reply of replies) {
    const [now, text] = listOf(reply);
    const report = reportOf(textOf(text));
    servers.set(report.get("run_id"), { now: numberOf(now), report });
  }
  return [
    ...[...servers.values()].flatMap((server) => findingsOf(server, askedAt, answeredAt)),
    notChecked("leases", "Redis keeps no durations: compare leases with the histogram of docs/metrics.md."),
  ];
}

interface Server {
  readonly now: number;
  readonly report: Report;
}

function unreachable(error: unknown): Finding {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof StoreError && isReply(error.cause, "READONLY")) {
    return failed(
      "read-only",
      "The client is connected to a read-only replica.",
      "Connect it to the primary, for example through Sentinel.",
    );
  }
  return failed(
    "connection",
    `Redis could not be queried: ${message.replace(/\.$/u, "")}.`,
    "Check the client's address and password.",
  );
}

function findingsOf({ now, report }: Server, askedAt: number, answeredAt: number): readonly Finding[] {
  const version = report.get("redis_version");
  const old = versionProblem(report);
  return [
    old === null
      ? ok("connection", `Redis ${version ?? "of an unknown version"}.`)
      : failed("connection", old, "Use a newer server."),
    eviction(report),
    persistence(report),
    clockFinding(now, askedAt, answeredAt),
  ];
}

const unknownSettings = "INFO is not allowed in scripts, so the server's settings cannot be read.";

function eviction(report: Report): Finding {
  const policy = report.get("maxmemory_policy");
  if (policy === undefined) return notChecked("eviction", unknownSettings);
  const problem = evictionProblem(report);
  if (problem !== null) {
    return failed("eviction", problem, "Set maxmemory-policy to noeviction, or use a Redis of its own.");
  }
  const doubt = warningsOf(report).find(({ code }) => code === "LATCHKEY_REDIS_EVICTION");
  if (doubt !== undefined) {
    const message = `maxmemory-policy is ${policy}. As long as maxmemory is not set, nothing is dropped.`;
    return warning("eviction", message, "Set maxmemory-policy to noeviction before you set maxmemory.");
  }
  return ok("eviction", `maxmemory-policy is ${policy}: no record is dropped.`);
}

function persistence(report: Report): Finding {
  const enabled = report.get("aof_enabled");
  if (enabled === undefined) return notChecked("persistence", unknownSettings);
  if (enabled !== "0") return ok("persistence", "appendonly is on.");
  const message =
    "Redis keeps no append-only file: a restart loses keys, and a request that is retried afterwards runs again.";
  return warning("persistence", message, "Set appendonly to yes.");
}
