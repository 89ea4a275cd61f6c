/** Clients that go on sending while things break: new keys, duplicates, duplicates with another body, at any server. */
import { setTimeout as pause } from "node:timers/promises";
import { type Draw, drawFrom, seedOf } from "../harness/seeded.ts";
import { type Body, type ClientLog, type ClientReply, type KeyName, type Route, routes } from "./history.ts";
import { type Sending, submit } from "./http.ts";
import type { Place } from "./servers.ts";

export interface ClientSettings {
  readonly seed: bigint;
  readonly clients: number;
  /** The longest pause between two requests of one client: they are paced, not waited for. */
  readonly pauseMs: number;
  /** Of keys, so that no two epochs share one. */
  readonly epoch: number;
  readonly routes?: readonly Route[];
}

const timeoutMs = 1_500;
const tenants = ["north", "south"] as const;
/** Those of the last keys that are asked for again. */
const remembered = 16;
const weights: Readonly<Record<Route, number>> = { pay: 4, order: 3, grab: 3, charge: 3, report: 2 };

export class Clients {
  readonly #log: ClientLog;
  readonly #places: readonly Place[];
  readonly #settings: ClientSettings;
  readonly #recent: { readonly name: KeyName; readonly body: Body }[] = [];
  readonly #mix: readonly Route[];
  #keys = 0;
  #stopping = false;
  #running: readonly Promise<void>[] = [];

  constructor(log: ClientLog, places: readonly Place[], settings: ClientSettings) {
    this.#log = log;
    this.#places = places;
    this.#settings = settings;
    const mixed = settings.routes ?? routes;
    this.#mix = mixed.flatMap((route) => Array.from({ length: weights[route] }, () => route));
  }

  start(): void {
    const { clients, seed } = this.#settings;
    this.#running = Array.from({ length: clients }, (_, at) =>
      this.#live(`client${at}`, drawFrom(seedOf(seed, 100 + at))),
    );
  }

  /** Nothing new is sent; what is under way is answered or given up. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#running);
  }

  async #live(client: string, draw: Draw): Promise<void> {
    while (!this.#stopping) {
      await this.#act(client, draw);
      await pause(draw.below(this.#settings.pauseMs));
    }
  }

  async #act(client: string, draw: Draw): Promise<void> {
    const { name, body } = this.#next(draw);
    const send = (as: string, what: Body) => this.#insist(`${client}${as}`, name, what, draw);
    const sends = [send("", body)];
    // At the same moment, at another server perhaps.
    if (draw.oneIn(4)) sends.push(send("'", body));
    if (draw.oneIn(6)) sends.push(send('"', otherThan(body)));
    await Promise.all(sends);
  }

  #next(draw: Draw): { readonly name: KeyName; readonly body: Body } {
    const known = this.#recent.length > 0 && draw.below(100) < 45 ? draw.pick(this.#recent) : null;
    if (known !== null) return draw.oneIn(5) ? { ...known, body: otherThan(known.body) } : known;
    const { epoch } = this.#settings;
    const name = {
      route: draw.pick(this.#mix),
      tenant: draw.pick(tenants),
      key: `k${epoch}-${this.#keys++}`,
    };
    // The other tenant uses the same key: it has nothing to do with this one.
    if (draw.oneIn(4)) this.#remember({ ...name, tenant: name.tenant === "north" ? "south" : "north" }, draw);
    return this.#remember(name, draw);
  }

  #remember(name: KeyName, draw: Draw) {
    const one = { name, body: draw.pick(["a", "b"] as const) };
    this.#recent.push(one);
    if (this.#recent.length > remembered) this.#recent.shift();
    return one;
  }

  /** As clients do: what was not answered is asked again, a few times. */
  async #insist(client: string, name: KeyName, body: Body, draw: Draw): Promise<void> {
    for (let tries = 1; ; tries++) {
      // Some take longer, so that faults meet them in the middle.
      const workMs = draw.oneIn(3) ? draw.below(250) : 0;
      // Some hang up in the middle.
      const sending = { name, body, workMs, timeoutMs: draw.oneIn(12) ? 1 + draw.below(50) : timeoutMs };
      const { answered } = await send(this.#log, draw.pick(this.#places), client, sending);
      const settled = answered.kind !== "doubt" && answered.kind !== "in_progress";
      if (settled || tries === 3 || draw.oneIn(3) || this.#stopping) return;
      await pause(10 + draw.below(this.#settings.pauseMs));
    }
  }
}

/** Sends once and notes what came back. */
export async function send(
  log: ClientLog,
  place: Place,
  client: string,
  sending: Sending,
): Promise<ClientReply> {
  const { url } = place;
  const { name, body } = sending;
  const ended = log.begin(name, client, { kind: "submit", fingerprint: body }, place.name ?? "nobody", body);
  const refused: ClientReply = { answered: { kind: "retryable" }, status: 0, execution: null, body: null };
  const reply = url === null ? refused : await submit(url, sending);
  ended(reply);
  return reply;
}

export function otherThan(body: Body): Body {
  return body === "a" ? "b" : "a";
}
