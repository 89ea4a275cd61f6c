/** An inbox over the memory store, with a clock that is moved by hand and calls of the store that fail as a test wants. */
import {
  createInbox,
  createLatchkey,
  type InboxOptions,
  type LatchkeyEvent,
  type Message,
  type MessageHandler,
  type OperationOptions,
  type Verdict,
} from "../../packages/latchkey/src/index.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import { type FaultPlan, faultyStore, type StoreCall } from "../../packages/latchkey/src/testing/index.ts";
import { manualPorts } from "../support/manual-ports.ts";

export type Handler = MessageHandler<MemoryTransaction, "transaction", { order: number }>;

export const sharedWorld = (ports = manualPorts()) => ({
  ports,
  memory: memoryStore({ ports, now: () => ports.clock.wallMs() }),
});

interface Change {
  readonly fault?: FaultPlan;
  readonly operation?: OperationOptions<"transaction">;
}

export function setUp(
  handler: Handler,
  options: Partial<InboxOptions<{ order: number }>> = {},
  world = sharedWorld(),
  { fault = () => "proceed", operation: settings = {} }: Change = {},
) {
  const { ports, memory } = world;
  let down = false;
  const calls: StoreCall["port"][] = [];
  const process = faultyStore(memory, (call) => {
    calls.push(call.port);
    return down ? "not_sent" : fault(call);
  });
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({ store: process.store, ports, onEvent: (one) => events.push(one) });
  const operation = latchkey.operation("shipments.create", settings);
  const inbox = createInbox(latchkey, operation, { tenant: "shop", ...options }, handler);
  return {
    ...world,
    calls,
    events,
    inbox,
    latchkey,
    kill: process.kill,
    fail: (failing: boolean) => {
      down = failing;
    },
    rows: () => memory.rows("shipments"),
    dead: async () =>
      (await memory.messages?.list({ operation: null, tenant: null, limit: 100, after: null })) ?? [],
    /** Its verdict, while time goes on. */
    async consume(message: Message): Promise<Verdict> {
      let verdict: Verdict | null = null;
      const consuming = inbox.consume(message).then((one) => {
        verdict = one;
      });
      for (let step = 0; verdict === null && step < 400; step++) await ports.clock.advance(100);
      await consuming;
      if (verdict === null) throw new Error("no verdict");
      return verdict;
    },
  };
}

export const ship: Handler = async ({ tx, input, attempt }) => {
  await tx.insert("shipments", { order: input.order, record: attempt.id });
};

export function message(order: number, change: Partial<Message> = {}): Message {
  return {
    id: `order-${order}`,
    source: "orders",
    body: Buffer.from(JSON.stringify({ order })),
    contentType: "application/json",
    headers: {},
    redelivered: false,
    ...change,
  };
}

export const again = (one: Message): Message => ({ ...one, redelivered: true });

/** A delivery whose process dies while the handler runs. */
export async function killed(world: ReturnType<typeof sharedWorld>, one: Message) {
  const begun = Promise.withResolvers<void>();
  const process = setUp(
    () => {
      begun.resolve();
      return new Promise(() => {});
    },
    {},
    world,
  );
  void process.inbox.consume(one);
  await begun.promise;
  process.kill();
  await world.ports.clock.advance(60_000);
}
