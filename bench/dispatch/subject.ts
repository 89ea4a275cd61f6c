/** The queues that are measured. */
import type { Queue } from "./queue.ts";

export type QueueName = keyof typeof queues;

/** Opened on a database of their own. */
export const queues = {
  latchkey: async (url: string) =>
    (await import("./latchkey.ts")).openLatchkey(url, { notify: true, keep: true }),
  "latchkey, `keepMs: 0`": async (url: string) =>
    (await import("./latchkey.ts")).openLatchkey(url, { notify: true, keep: false }),
  "latchkey, polling": async (url: string) =>
    (await import("./latchkey.ts")).openLatchkey(url, { notify: false, keep: true }),
  "pg-boss": async (url: string) =>
    (await import("./pg-boss.ts")).openPgBoss(url, { notify: true, each: true }),
  "pg-boss, whole batches": async (url: string) =>
    (await import("./pg-boss.ts")).openPgBoss(url, { notify: true, each: false }),
  "pg-boss, polling": async (url: string) =>
    (await import("./pg-boss.ts")).openPgBoss(url, { notify: false, each: true }),
  "graphile-worker": async (url: string) => (await import("./graphile-worker.ts")).openGraphileWorker(url),
} satisfies Record<string, (url: string) => Promise<Queue>>;

export const queueNames = Object.keys(queues) as QueueName[];

/** A queue of that name uses no hints: it differs from the other only in how it is woken. */
export const pollsOnly = (name: QueueName): boolean => name.endsWith("polling");
