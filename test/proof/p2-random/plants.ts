/** Mistakes that random schedules have to find. */
import type { RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import { plants as everywhere, type Plant } from "../harness/store-plants.ts";
import { tenants } from "./config.ts";

type MemoryStore = Store<MemoryTransaction>;

const forgottenPhases: Plant = ({ journal }) => ({
  journal: {
    ...journal,
    async read(key, id) {
      const read = await journal.read(key, id);
      return read && { ...read, steps: read.steps.filter(({ kind }) => kind !== "phase") };
    },
  },
});

const blindRenewal: Plant = (store) => ({
  async renew(...given) {
    await store.renew(...given);
    return true;
  },
});

const lostResult: Plant = ({ journal }) => ({
  journal: {
    ...journal,
    endCall: (owner, call, end) =>
      journal.endCall(owner, call, end.event === "finish" ? { event: "not_executed" } : end),
  },
});

/** What is not found is looked for under the other tenant's name. */
const sharedKeys: Plant = (store) => ({
  async read(key) {
    const reading = await store.read(key);
    return reading.record === null ? store.read(ofOther(key)) : reading;
  },
});

function ofOther(key: RecordKey): RecordKey {
  return { ...key, tenant: tenants.find((tenant) => tenant !== key.tenant) ?? key.tenant };
}

const changedAnswer: Plant = (store) => ({
  async read(key) {
    const { record, now } = await store.read(key);
    if (record === null || !("answer" in record) || record.answer === null) return { record, now };
    return { record: { ...record, answer: Buffer.concat([record.answer, Buffer.from(" ")]) }, now };
  },
});

/** What was claimed is handed out a second time. */
const claimedTwice: Plant = (store: MemoryStore) => {
  let last: Awaited<ReturnType<MemoryStore["claimPending"]>> = [];
  return {
    async claimPending(wants) {
      const again = last;
      last = await store.claimPending(wants);
      return [...last, ...again];
    },
  };
};

export const plants: Readonly<Record<string, Plant>> = {
  ...everywhere,
  "finished phases are forgotten": forgottenPhases,
  "a renewal is believed without looking": blindRenewal,
  "what a call gave is lost": lostResult,
  "keys of two tenants are not told apart": sharedKeys,
  "an answer is stored with its bytes changed": changedAnswer,
  "a claimed request is handed out twice": claimedTwice,
};
