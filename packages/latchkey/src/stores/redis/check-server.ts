/** Checks the servers' own information, once, before the store is used. */
import { LatchkeyError, StoreError } from "../../errors.ts";
import { isReply } from "./certainty.ts";
import { listOf, textOf } from "./replies.ts";
import type { Runner } from "./runner.ts";
import { partitionScripts } from "./scripts/partition.ts";

/** A setting that reduces safety and that Latchkey does not refuse. */
export interface RedisWarning {
  readonly code:
    | "LATCHKEY_REDIS_NOT_PERSISTENT"
    | "LATCHKEY_REDIS_EVICTION"
    | "LATCHKEY_REDIS_SETTINGS_UNKNOWN";
  readonly message: string;
}

const oldestVersion = [6, 2];

/**
 * @returns the warnings about any of the servers
 * @throws {LatchkeyError} `store-unsuitable`
 * @throws {StoreError}
 */
export async function checkServers(runner: Runner): Promise<readonly RedisWarning[]> {
  const known = await askedOfPrimaries(runner);
  const reports = [...new Map(known.map((report) => [report.get("run_id"), report])).values()];
  for (const report of reports) {
    refuseOld(report);
    refuseEviction(report);
  }
  await refuseOtherPartitions(runner);
  const warnings = reports.flatMap(warningsOf);
  return [...new Map(warnings.map((warning) => [warning.code, warning])).values()];
}

export type Report = ReadonlyMap<string, string>;

async function askedOfPrimaries(runner: Runner): Promise<readonly Report[]> {
  try {
    return (await runner.askAll(partitionScripts.inspect)).map((reply) => reportOf(textOf(listOf(reply)[1])));
  } catch (error) {
    if (error instanceof StoreError && isReply(error.cause, "READONLY")) {
      throw unsuitable("The client is connected to a read-only replica. Connect it to the primary.", error);
    }
    throw error;
  }
}

export function reportOf(text: string): Report {
  const lines = text.split("\r\n").filter((line) => line.includes(":"));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}

function refuseOld(report: Report): void {
  const problem = versionProblem(report);
  if (problem !== null) throw unsuitable(problem);
}

/** Null if the version is supported or unknown. */
export function versionProblem(report: Report): string | null {
  const version = report.get("redis_version");
  if (version === undefined) return null;
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [least = 0, leastMinor = 0] = oldestVersion;
  if (major > least || (major === least && minor >= leastMinor)) return null;
  return `Redis ${version} is older than ${oldestVersion.join(".")}.`;
}

function refuseEviction(report: Report): void {
  const problem = evictionProblem(report);
  if (problem === null) return;
  throw unsuitable(`${problem} Set maxmemory-policy to noeviction, or use a Redis of its own.`);
}

/** Latchkey's keys never expire, so the `volatile-` policies never choose one of them. */
export function evictionProblem(report: Report): string | null {
  const policy = report.get("maxmemory_policy");
  if (!policy?.startsWith("allkeys-") || report.get("maxmemory") === "0") return null;
  return `maxmemory-policy is ${policy}: when memory runs out, Redis drops keys of its choice, and a dropped reservation lets the same request run twice.`;
}

/** Processes with different numbers of partitions would not find each other's records. */
async function refuseOtherPartitions(runner: Runner): Promise<void> {
  const { partitions, partitionsKey } = runner.layout;
  const known = textOf(await runner.at(partitionsKey, partitionScripts.partitions, [String(partitions)]));
  if (known === String(partitions)) return;
  throw unsuitable(
    `The records under this prefix are divided into ${known} partitions, and this store was given ${partitions}. Give every process the same number.`,
  );
}

export function warningsOf(report: Report): readonly RedisWarning[] {
  const policy = report.get("maxmemory_policy");
  const persistence = report.get("aof_enabled");
  if (policy === undefined || persistence === undefined) {
    return [
      {
        code: "LATCHKEY_REDIS_SETTINGS_UNKNOWN",
        message:
          "The settings of Redis cannot be read (INFO is not allowed in scripts). Make sure that maxmemory-policy is noeviction and that appendonly is on: after Redis has lost a key, the same request can run twice.",
      },
    ];
  }
  const warnings: RedisWarning[] = [];
  if (persistence === "0") {
    warnings.push({
      code: "LATCHKEY_REDIS_NOT_PERSISTENT",
      message:
        "Redis keeps no append-only file (appendonly no): a restart loses every key since the last snapshot, or all keys, and a request that is retried afterwards runs again. Set appendonly to yes.",
    });
  }
  if (policy.startsWith("allkeys-")) {
    warnings.push({
      code: "LATCHKEY_REDIS_EVICTION",
      message: `maxmemory-policy is ${policy}. As long as maxmemory is not set, nothing is dropped; with maxmemory, requests whose reservations are dropped can run twice. Set maxmemory-policy to noeviction.`,
    });
  }
  return warnings;
}

function unsuitable(message: string, cause?: unknown): LatchkeyError {
  return new LatchkeyError("store-unsuitable", cause === undefined ? { message } : { message, cause });
}
