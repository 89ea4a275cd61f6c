import type { BrokerContext, Running } from "./case.ts";

/** Stops the consumer, and waits until the broker has no unsettled messages. */
export async function stopped({ within, until, broker }: BrokerContext, consumer: Running): Promise<void> {
  await within("it stops", consumer.stop());
  await until("everything is settled", async () => (await broker.unsettled()) === 0);
}

/** Like `stopped`; another consumer receives the copy that this one gave back when it stopped. */
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
