/** Mistakes that show in replies to callers, and in what has been done. */
import type { Plant } from "./plant.ts";

const operations = { part: "operations" } as const;

export const operationPlants: readonly Plant[] = [
  {
    name: "finished phases are forgotten",
    ...operations,
    change: ({ journal }) => ({
      journal: {
        ...journal,
        async read(key, id) {
          const read = await journal.read(key, id);
          return read && { ...read, steps: read.steps.filter(({ kind }) => kind !== "phase") };
        },
      },
    }),
  },
  {
    name: "a call in doubt counts as one that never happened",
    ...operations,
    change: ({ journal }) => ({
      journal: {
        ...journal,
        async read(key, id) {
          const read = await journal.read(key, id);
          const steps = read?.steps.filter((step) => step.kind === "phase" || step.state !== "started") ?? [];
          return read && { ...read, steps };
        },
      },
    }),
  },
  {
    name: "an ended lease frees its key",
    ...operations,
    change: (store) => ({
      async read(key) {
        const { record, now } = await store.read(key);
        const isOver = record?.state === "in_progress" && now >= record.leaseEndsAt;
        return { record: isOver ? null : record, now };
      },
    }),
  },
  {
    name: "an expired answer is replayed",
    ...operations,
    change: (store) => ({
      async read(key) {
        const { record, now } = await store.read(key);
        if (record?.state !== "completed" || now >= record.forgetAt) return { record, now };
        return { record: { ...record, expiresAt: record.forgetAt }, now };
      },
    }),
  },
  {
    name: "what a transaction enqueues is lost",
    ...operations,
    change: ({ transactions }) => ({
      transactions: transactions && {
        ...transactions,
        run: (request, work) =>
          transactions.run(request, async (open) => {
            const done = await work(open);
            return done.end === "commit" ? { ...done, effects: [] } : done;
          }),
      },
    }),
  },
];
