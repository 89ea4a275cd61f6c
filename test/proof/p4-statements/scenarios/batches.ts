/** Messages that share transactions: with others of their keys, with one that fails, and with statements nobody awaits. */
import { type Handler, Mailbox, type Run, rowText, writes } from "../messages.ts";
import { everyIsolation, faultKinds, type Scenario, type Tx } from "../scenario.ts";

/** At SERIALIZABLE nothing is shared. */
const isolations = everyIsolation.filter((isolation) => isolation !== "serializable");
const shared = { isolations, faults: faultKinds };

const fails: Handler = async ({ write }) => {
  await write();
  throw new Error("it does not work");
};

/** Locks a row that other messages lock, too. */
const moves =
  (account: string): Handler =>
  async ({ tx, world, write }) => {
    const accounts = world.business.replace("business", "accounts");
    await tx.query(`update ${accounts} set amount = amount + 1 where name = $1`, [account]);
    await write();
  };

export const batchesCrossing: Scenario = {
  name: "batches-crossing",
  about:
    "two batches with two keys in common, in opposite order, whose other messages write the same two rows in opposite order",
  isolations: everyIsolation,
  faults: faultKinds,
  handlersCross: true,
  async arrange(world) {
    const mailbox = new Mailbox(world, {
      "left 0": { handler: moves("left") },
      "right 0": { handler: moves("right") },
      "left 1": { handler: moves("left") },
      "right 1": { handler: moves("right") },
      one: { handler: writes },
      two: { handler: writes },
    });
    await mailbox.batch(0, ["left 0", "one", "two", "right 0"]);
    await mailbox.batch(1, ["right 1", "two", "one", "left 1"]);
    return mailbox.cast(2, ({ accounts, business }) =>
      accounts.flatMap(({ name, amount }) => {
        const rows = business.filter(({ key }) => key.includes(` ${name} `)).length;
        return amount === rows
          ? []
          : [`I1: ${name} was written ${amount} times, and ${rows} messages moved it`];
      }),
    );
  },
};

export const batchesAndSingle: Scenario = {
  name: "batches-and-single",
  about: "a batch whose first message changes a setting, beside a transaction of its second one's key",
  ...shared,
  async arrange(world) {
    const mailbox = new Mailbox(world, {
      // Behind a comment, where the beginning of the text does not show it.
      setting: {
        handler: async ({ tx, write }) => {
          await write();
          await tx.query("/* orders.ts:7 */ set local p4.setting = ', under the setting of another'");
        },
      },
      one: { handler: writes },
      two: { handler: writes },
    });
    await mailbox.batch(0, ["setting", "one", "two"]);
    mailbox.single(1, "one");
    return mailbox.cast(2);
  },
};

export const batchesFailing: Scenario = {
  name: "batches-failing",
  about:
    "a batch with a message that fails and a copy of another one, beside a batch with duplicates of both in opposite order",
  ...shared,
  async arrange(world) {
    const mailbox = new Mailbox(world, {
      one: { handler: writes },
      failing: {
        fails: true,
        handler: async (run) => {
          await run.write();
          await run.tx.query("savepoint latchkey_part");
          await run.tx.query(rowText({ ...run, life: `${run.life}/half` }, "its other half"));
          throw new Error("it does not work");
        },
      },
      two: { handler: writes },
    });
    await mailbox.batch(0, ["one", "failing", "two", "two"]);
    await mailbox.batch(1, ["two", "failing"]);
    return mailbox.cast(2);
  },
};

/** The first statement of its transaction's part, which waits until a savepoint is set. */
function sendsAndGoesOn(run: Run): void {
  run.tx.query(rowText(run, "its handler")).catch(() => {});
}

/**
 * How many microtasks lie between a handler's end and its last statement, at most. From some of them on the end has been seen
 * and the `tx` is not revoked yet; which ones depends on the library's promises.
 */
const ticksMax = 10;

function afterTicks(ticks: number, act: () => void): void {
  queueMicrotask(() => (ticks > 1 ? afterTicks(ticks - 1, act) : act()));
}

/** Sends its first statement `ticks` microtasks after it has returned; when its message comes again, before. */
function sendsLate(ticks: number): Handler {
  let isFirst = true;
  return async (run) => {
    if (!isFirst) return run.write();
    isFirst = false;
    return afterTicks(ticks, () => sendsAndGoesOn(run));
  };
}

export const batchesNotAwaited: Scenario = {
  name: "batches-not-awaited",
  about:
    "a batch whose handlers do not await their first statement, send it when they have returned, or use the `tx` of another message; and a batch that such a handler ends",
  ...shared,
  async arrange(world) {
    const left: Tx[] = [];
    let unlucky = true;
    const mailbox = new Mailbox(world, {
      one: { handler: writes },
      returning: {
        handler: async (run) => {
          left.push(run.tx);
          sendsAndGoesOn(run);
        },
      },
      trailing: { handler: sendsLate(world.pick("trailing", ticksMax)) },
      failing: { fails: true, handler: fails },
      straggling: { handler: sendsLate(world.pick("straggling", ticksMax)) },
      breaking: { fails: true, handler: fails },
      throwing: {
        fails: true,
        handler: async (run) => {
          sendsAndGoesOn(run);
          throw new Error("it does not work");
        },
      },
      late: {
        handler: async (run) => {
          for (const tx of left) {
            const another = { ...run, life: `${run.life}/late` };
            await (async () => tx.query(rowText(another, "the `tx` of another")))().catch(() => {});
          }
          await run.write();
        },
      },
      last: { handler: sendsLate(world.pick("last", ticksMax)) },
      two: { handler: writes },
      unlucky: {
        handler: async (run) => {
          if (!unlucky) return run.write();
          unlucky = false;
          sendsAndGoesOn(run);
          throw Object.assign(new Error("could not serialize access"), { code: "40001" });
        },
      },
    });
    const late = ["trailing", "failing", "straggling", "breaking"];
    await mailbox.batch(0, ["one", ...late, "returning", "throwing", "late", "last"]);
    await mailbox.batch(1, ["two", "unlucky"]);
    return mailbox.cast(2);
  },
};

/** One message, as when nothing else waits: with two, those that go on alone have too many orders to run every one. */
export const batchLateCommit: Scenario = {
  name: "batch-late-commit",
  about: "a batch of one message whose COMMIT may come late, never, or unanswered, and how it is resolved",
  ...shared,
  async arrange(world) {
    const mailbox = new Mailbox(world, { one: { handler: writes } });
    await mailbox.batch(0, ["one"]);
    return mailbox.cast(1);
  },
};
