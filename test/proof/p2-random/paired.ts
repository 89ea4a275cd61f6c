/**
 * Two runs of one schedule, with and without what tenant B does. What tenant A observes is the same in both: it is a
 * function of A's own requests, of time, and of services that come round.
 */
import type { Asked } from "./asked.ts";
import type { Choices } from "./choices.ts";
import { submit } from "./clients.ts";
import { type Config, drawConfig, tenants } from "./config.ts";
import { drive } from "./drive.ts";
import { answerText } from "./life-log.ts";
import { serviceNames } from "./process.ts";
import type { Violation } from "./report.ts";
import type { WorldFault } from "./scheduler.ts";
import { World, type WorldOptions } from "./world.ts";

type Tenant = (typeof tenants)[number];

/** One thing that happens, whoever is there. */
type Event =
  | { readonly kind: "move"; readonly tenant: Tenant }
  | { readonly kind: "leap"; readonly ms: number }
  | { readonly kind: "service"; readonly name: (typeof serviceNames)[number] };

const leapsMs = [100, 1_000, 3_000, 12_000, 25_000] as const;
const eventsMax = 60;

/** Lists that do not depend on each other. */
export interface Lists {
  readonly config: Choices;
  readonly order: Choices;
  readonly a: Choices;
  readonly b: Choices;
}

/** @param listsOf the same lists each time */
export async function runPair(listsOf: () => Lists, options: WorldOptions = {}): Promise<Violation | null> {
  const both = new Pair(listsOf(), true, options);
  await both.run();
  const alone = new Pair(listsOf(), false, options);
  await alone.run();
  const violation = both.world.report.violation ?? alone.world.report.violation;
  if (violation !== null) return violation;
  const [with_, without] = [both.observed(), alone.observed()];
  if (with_ === without) return null;
  return { invariant: "I11", what: `A observes with B:\n${with_}\nand without B:\n${without}` };
}

class Pair {
  readonly world: World;
  readonly #lists: Lists;
  readonly #hasB: boolean;
  readonly #left: Record<Tenant, number> = { ta: 4, tb: 4 };
  #events = 0;
  #untilMs: number | null = null;

  constructor(lists: Lists, hasB: boolean, options: WorldOptions) {
    const drawn = drawConfig(lists.config);
    const keys = tenants.flatMap((tenant) => ["k0", "k1"].map((key) => ({ tenant, key })));
    const config: Config = { ...drawn, keys, crashes: false, faultRate: 8 };
    this.#lists = lists;
    this.#hasB = hasB;
    const choicesOf = (tenant: string) => this.#of(tenant);
    this.world = new World(config, lists.order, { ...options, choicesOf });
  }

  run(): Promise<void> {
    return drive(this.world, () => this.#step());
  }

  /** All that A has seen, with other names for what is named at random. */
  observed(): string {
    const { world } = this;
    const replies = world.asked.filter(({ key }) => key.tenant === tenants[0]).map(replyText);
    const lives = [...world.lives.all.values()]
      .filter(({ record }) => record.tenant === tenants[0])
      .map(({ id, record, answer, over }) => {
        const charges = world.downstream.countAt(id, "charged") + world.downstream.directOf(id).length;
        return `${id} ${record.state} ${record.fence.attempt} ${answer} ${over} charged ${charges}`;
      });
    return renamed([...replies, ...lives].join("\n"));
  }

  #of(tenant: string): Choices {
    return tenant === tenants[0] ? this.#lists.a : this.#lists.b;
  }

  #step(): boolean {
    const { clock } = this.world;
    if (this.#untilMs !== null) {
      if (clock.fireOne(this.#untilMs)) return true;
      clock.moveTo(this.#untilMs);
      this.#untilMs = null;
    }
    this.#events += 1;
    if (this.#events > eventsMax) return false;
    const event = this.#drawn();
    switch (event.kind) {
      case "move":
        if (event.tenant === tenants[0] || this.#hasB) this.#move(event.tenant);
        return true;
      case "leap":
        this.#untilMs = clock.nowMs + event.ms;
        return true;
      case "service":
        this.world.startService(this.world.operator(), event.name);
        return true;
      default:
        return event satisfies never;
    }
  }

  /** The same whoever is there. */
  #drawn(): Event {
    const { order } = this.#lists;
    const kind = order.choose(16);
    const [leapMs, name] = [order.pick(leapsMs), order.pick(serviceNames)];
    if (kind < 6) return { kind: "move", tenant: tenants[0] };
    if (kind < 12) return { kind: "move", tenant: tenants[1] };
    return kind < 14 ? { kind: "leap", ms: leapMs } : { kind: "service", name };
  }

  #move(tenant: Tenant): void {
    const { world } = this;
    const choices = this.#of(tenant);
    const waiting = world.scheduler.eligible().filter((one) => one.tenant === tenant);
    if (this.#left[tenant] > 0 && (waiting.length === 0 || choices.oneIn(4))) {
      this.#left[tenant] -= 1;
      const key = choices.pick(world.config.keys.filter((one) => one.tenant === tenant));
      const plan = choices.pick(world.config.operations);
      const digest = choices.oneIn(5) ? 2 : 1;
      const process = world.process(choices.choose(world.slots));
      world.asked.push(submit(world, process, { plan, key, digest, principal: "p" }));
      return;
    }
    if (waiting.length === 0) return;
    const one = choices.pick(waiting);
    const isFault = choices.choose(64) >= 64 - world.config.faultRate && one.faults.length > 0;
    const fault: WorldFault = isFault ? choices.pick(one.faults) : "proceed";
    world.let(one, fault);
  }
}

function replyText({ plan, key, digest, reply, endedMs }: Asked): string {
  const about = `${plan.name} ${key.key} body ${digest} at ${endedMs}`;
  if (reply === null) return `${about}: nothing`;
  if (reply.kind === "threw") return `${about}: ${String(reply.error)}`;
  const { answer, ...others } = "answer" in reply ? reply : { ...reply, answer: null };
  return `${about}: ${JSON.stringify(others)} ${answer === null ? "" : answerText(answer)}`;
}

/** Numbers that are drawn, in the order of their first appearance. */
function renamed(text: string): string {
  const names = new Map<string, number>();
  return text.replace(/(id-|token-|nonce |row |charge )\d+/g, (name, kind: string) => {
    const number = names.get(name) ?? names.size;
    names.set(name, number);
    return `${kind}${number}`;
  });
}
