/** Puts the parts of the store together. No command is sent to a server before its settings are checked. */
import { isLatchkeyError, StoreError } from "../../errors.ts";
import type { Ports } from "../../ports.ts";
import type { Store } from "../store.ts";
import { checkServers, type RedisWarning } from "./check-server.ts";
import type { RedisLink } from "./client.ts";
import { examineRedis } from "./examine.ts";
import { Layout } from "./keys.ts";
import { Runner } from "./runner.ts";
import { ServerTime } from "./server-time.ts";
import { assembleRedisStore } from "./store.ts";

export interface OpenOptions {
  readonly link: RedisLink;
  readonly prefix: string;
  /** Null: the default for this kind of client. */
  readonly partitions: number | null;
  readonly commandTimeoutMs: number;
  readonly onWarning: (warning: RedisWarning) => void;
  readonly ports: Ports;
  /** The store's time in a test; null: the server's. */
  readonly now: (() => number) | null;
}

/** More partitions divide a cluster's load better, but each search through all of them costs more. */
const clusterPartitions = 32;

/** @throws {TypeError} when an option is out of range */
export function openRedis(options: OpenOptions): Store {
  const { link, commandTimeoutMs, ports } = options;
  if (!Number.isSafeInteger(commandTimeoutMs) || commandTimeoutMs <= 0) {
    throw new TypeError(`commandTimeoutMs must be a positive whole number (got ${commandTimeoutMs})`);
  }
  const layout = new Layout(options.prefix, options.partitions ?? (link.cluster ? clusterPartitions : 1));
  const { clock } = ports;
  const time = new ServerTime(clock);
  const parts = { link, layout, clock, time, commandTimeoutMs, now: options.now };
  const unchecked = new Runner(parts);
  const check = serverCheck(unchecked, options.onWarning);
  const runner = new Runner({ ...parts, link: checkedLink(link, check) });
  return assembleRedisStore({
    runner,
    random: ports.random,
    verify: () => check.now(),
    examine: () => examineRedis(unchecked, clock),
  });
}

interface ServerCheck {
  /** Whether the settings have been checked, and are acceptable. */
  readonly passed: boolean;
  /** Checks now. */
  now(): Promise<void>;
  /** Checks, once for all concurrent callers. */
  together(): Promise<void>;
}

function serverCheck(runner: Runner, onWarning: OpenOptions["onWarning"]): ServerCheck {
  const reported = new Set<string>();
  let passed = false;
  let running: Promise<void> | null = null;
  const now = async () => {
    for (const warning of await checkServers(runner)) {
      if (reported.has(warning.code)) continue;
      reported.add(warning.code);
      onWarning(warning);
    }
    passed = true;
  };
  const together = () => {
    running ??= now().finally(() => {
      running = null;
    });
    return running;
  };
  return {
    get passed() {
      return passed;
    },
    now,
    together,
  };
}

function checkedLink(link: RedisLink, check: ServerCheck): RedisLink {
  return {
    cluster: link.cluster,
    async call(...call) {
      if (!check.passed) await check.together().catch(refuse);
      return link.call(...call);
    },
  };
}

/** `not_sent`, however the check failed, because the command itself was not sent. */
function refuse(error: unknown): never {
  const message = isLatchkeyError(error) ? error.message : String(error);
  throw new StoreError("not_sent", { message, cause: error });
}
