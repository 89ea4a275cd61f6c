import type { BrokerContext, Running } from "./case.ts";

/** Stops it, and waits until the broker has nothing left. */
export async function stopped({ within, until, broker }: BrokerContext, consumer: Running): Promise<void> {
  await within("it stops", consumer.stop());
  await until("everything is settled", async () => (await broker.unsettled()) === 0);
}

/** As `stopped`; a copy that it gave back when it stopped is left to others. */
export async function drained(context: BrokerContext, consumer: Running): Promise<void> {
  const { within, until, broker, consume, pause } = context;
  await within("it stops", consumer.stop());
  await until("everything is settled", async () => {
    if ((await broker.unsettled()) === 0) return true;
    const other = await consume(() => {});
    await pause(300);
    await within("it stops", other.stop());
    return false;
  });
}
