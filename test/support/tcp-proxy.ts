import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "./postgres-cluster.ts";
import {
  type BackendMessage,
  type FrontendMessage,
  type PostgresSplitter,
  postgresSplitter,
} from "./postgres-messages.ts";
import { onRelease } from "./resources.ts";
import { deferred, within } from "./until.ts";

/** up: from the client to the server. down: from the server to the client. */
export type Direction = "up" | "down";

export interface ProxyOptions {
  /** The server: a TCP port (host 127.0.0.1 unless given) or a Unix socket. */
  to: { readonly port: number; readonly host?: string } | { readonly path: string };
  /** How to split bytes for `holdWhen` and `observe`. "bytes": by arrival, as messages of type "bytes". */
  protocol?: "postgres" | "bytes";
}

export interface ProxyCounts {
  /** Connections accepted. */
  readonly connections: number;
  /** How often a client sent after the server had answered (a connection's first bytes count too). */
  readonly flights: number;
  readonly up: { readonly bytes: number; readonly chunks: number };
  readonly down: { readonly bytes: number; readonly chunks: number };
}

/** One message kept back, with all that follows it in its direction on its connection. */
export interface Hold {
  /** Resolves with the message when it is being kept back and everything before it was passed on. */
  held(timeoutMs?: number): Promise<ProxyMessage>;
  /** Passes it on, also when its sender has gone away meanwhile. Before a match: no longer waits for one. */
  release(): void;
  /** Resets both ends of the connection; the message is never delivered. */
  drop(): void;
}

export type ProxyMessage = FrontendMessage | BackendMessage;

interface ArmedHold {
  matches(message: ProxyMessage): boolean;
  take(lane: Lane, message: ProxyMessage): void;
}

type Item = { message: ProxyMessage; checked: boolean; at: number } | { end: "finish" | "reset"; at: number };

/** What all connections of a proxy obey. */
interface Rules {
  stalled: Record<Direction, boolean>;
  delayMs: Record<Direction, number>;
  holds: Set<ArmedHold>;
  observers: Set<(message: ProxyMessage) => void>;
  counts: {
    connections: number;
    flights: number;
    up: { bytes: number; chunks: number };
    down: { bytes: number; chunks: number };
  };
}

/** One direction of one connection: a queue that is passed on in order, when the rules let it. */
class Lane {
  readonly #items: Item[] = [];
  readonly #rules: Rules;
  readonly #direction: Direction;
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #delivered: () => void;
  #holding = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(rules: Rules, direction: Direction, from: Socket, to: Socket, delivered: () => void) {
    this.#rules = rules;
    this.#direction = direction;
    this.#from = from;
    this.#to = to;
    this.#delivered = delivered;
    to.on("drain", () => from.resume());
  }

  message(message: ProxyMessage): void {
    this.#items.push({
      message,
      checked: false,
      at: performance.now() + this.#rules.delayMs[this.#direction],
    });
  }

  end(end: "finish" | "reset"): void {
    this.#items.push({ end, at: performance.now() + this.#rules.delayMs[this.#direction] });
    this.pump();
  }

  pump(): void {
    for (;;) {
      const item = this.#items[0];
      if (!item || this.#holding || this.#rules.stalled[this.#direction] || this.#waits(item)) return;
      if ("message" in item && this.#isHeld(item)) return;
      this.#items.shift();
      this.#passOn(item);
    }
  }

  #waits(item: Item): boolean {
    const waitMs = item.at - performance.now();
    if (waitMs <= 0) return false;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.pump(), waitMs);
    return true;
  }

  #isHeld(item: Extract<Item, { message: ProxyMessage }>): boolean {
    if (item.checked) return false;
    item.checked = true;
    const hold = [...this.#rules.holds].find((one) => one.matches(item.message));
    if (!hold) return false;
    this.#holding = true;
    hold.take(this, item.message);
    return true;
  }

  #passOn(item: Item): void {
    if ("end" in item) {
      if (item.end === "reset") reset(this.#to);
      else this.#to.end();
      return;
    }
    this.#delivered();
    for (const observe of this.#rules.observers) observe(item.message);
    if (!this.#to.destroyed && !this.#to.write(item.message.bytes)) this.#from.pause();
  }

  release(): void {
    this.#holding = false;
    this.pump();
  }

  /** Forgets what was not delivered and resets both ends. */
  reset(): void {
    this.#items.length = 0;
    clearTimeout(this.#timer);
    reset(this.#from);
    reset(this.#to);
  }
}

/** After `end` libuv cannot reset any more, and Node would keep the handle, and with it the process, for ever. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

class Connection {
  readonly lanes: readonly [up: Lane, down: Lane];
  readonly #rules: Rules;
  readonly #splitter: PostgresSplitter | undefined;
  #serverSpoke = true;

  constructor(client: Socket, server: Socket, rules: Rules, splitter: PostgresSplitter | undefined) {
    this.#rules = rules;
    this.#splitter = splitter;
    const up = new Lane(rules, "up", client, server, () => {});
    const down = new Lane(rules, "down", server, client, () => {
      this.#serverSpoke = true;
    });
    this.lanes = [up, down];
    client.on("data", (chunk) => this.#fromClient(chunk));
    server.on("data", (chunk) => this.#fromServer(chunk));
    // The server sees a client that went away as an orderly end: a reset could overtake bytes sent before it.
    client.on("end", () => up.end("finish"));
    client.on("error", () => up.end("finish"));
    server.on("end", () => down.end("finish"));
    server.on("error", () => down.end("reset"));
  }

  #fromClient(chunk: Buffer): void {
    const { counts } = this.#rules;
    counts.up.bytes += chunk.length;
    counts.up.chunks += 1;
    if (this.#serverSpoke) counts.flights += 1;
    this.#serverSpoke = false;
    const messages = this.#splitter?.up(chunk) ?? [{ direction: "up", type: "bytes", bytes: chunk } as const];
    for (const message of messages) this.lanes[0].message(message);
    this.lanes[0].pump();
  }

  #fromServer(chunk: Buffer): void {
    const { counts } = this.#rules;
    counts.down.bytes += chunk.length;
    counts.down.chunks += 1;
    const whole = { direction: "down", type: "bytes", bytes: chunk } as const;
    for (const message of this.#splitter?.down(chunk) ?? [whole]) this.lanes[1].message(message);
    this.lanes[1].pump();
  }
}

/** A TCP proxy on 127.0.0.1 that tests use to make a network misbehave. */
export class TcpProxy {
  readonly #options: ProxyOptions;
  readonly #connections = new Set<Connection>();
  readonly #rules: Rules = {
    stalled: { up: false, down: false },
    delayMs: { up: 0, down: 0 },
    holds: new Set(),
    observers: new Set(),
    counts: { connections: 0, flights: 0, up: { bytes: 0, chunks: 0 }, down: { bytes: 0, chunks: 0 } },
  };
  readonly #forget: () => void;
  #listener: Server | undefined;
  #port = 0;

  /** Use `startProxy`. */
  constructor(options: ProxyOptions) {
    this.#options = options;
    this.#forget = onRelease(() => this.close());
  }

  get port(): number {
    return this.#port;
  }

  /** The same URL, through this proxy. */
  url(of: string): string {
    const url = new URL(of);
    url.host = `127.0.0.1:${this.port}`;
    return url.href;
  }

  /** Accepts connections on the same port as before. */
  async listen(): Promise<void> {
    if (this.#listener) return;
    const listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client));
    this.#listener = listener;
    for (let attempt = 1; ; attempt += 1) {
      const fixed = this.#port !== 0;
      if (!fixed) this.#port = await freePort();
      listener.listen(this.#port, "127.0.0.1");
      try {
        await once(listener, "listening");
        return;
      } catch (error) {
        if (fixed || attempt === 5) throw error;
        this.#port = 0;
      }
    }
  }

  #accept(client: Socket): void {
    this.#rules.counts.connections += 1;
    const { to } = this.#options;
    const address = "path" in to ? { path: to.path } : { host: to.host ?? "127.0.0.1", port: to.port };
    const server = connect({ ...address, allowHalfOpen: true, noDelay: true });
    const splitter = this.#options.protocol === "bytes" ? undefined : postgresSplitter();
    const connection = new Connection(client, server, this.#rules, splitter);
    this.#connections.add(connection);
    server.on("close", () => {
      if (client.destroyed) this.#connections.delete(connection);
    });
    client.on("close", () => {
      if (server.destroyed) this.#connections.delete(connection);
    });
  }

  #pump(): void {
    for (const connection of this.#connections) for (const lane of connection.lanes) lane.pump();
  }

  /** Back to normal: listens, no stall, no delay; what was stalled is delivered. Holds stay. */
  async pass(): Promise<void> {
    this.#rules.stalled = { up: false, down: false };
    this.#rules.delayMs = { up: 0, down: 0 };
    await this.listen();
    this.#pump();
  }

  /** Resets all connections; undelivered bytes are lost. New connections pass. */
  reset(): void {
    for (const connection of this.#connections) for (const lane of connection.lanes) lane.reset();
    this.#connections.clear();
  }

  /** Resets all connections and refuses new ones (ECONNREFUSED) until `pass`. */
  async cut(): Promise<void> {
    const listener = this.#listener;
    this.#listener = undefined;
    const closed = listener && once(listener, "close");
    listener?.close();
    this.reset();
    await closed;
  }

  /** Half-open: bytes (and ends of connections) in these directions wait until `pass`. Default both. */
  stall(...directions: Direction[]): void {
    for (const direction of directions.length > 0 ? directions : (["up", "down"] as const)) {
      this.#rules.stalled[direction] = true;
    }
  }

  /** Delays what arrives from now on; a number means that much each way. */
  delay(delayMs: number | Partial<Record<Direction, number>>): void {
    const { up = 0, down = 0 } = typeof delayMs === "number" ? { up: delayMs, down: delayMs } : delayMs;
    this.#rules.delayMs = { up, down };
  }

  /** Keeps back the first message from a client that matches, on whichever connection. */
  holdWhen(matches: (message: FrontendMessage) => boolean): Hold {
    return this.#hold((message) => message.direction === "up" && matches(message));
  }

  /** Keeps back the first message from the server that matches: the work is done, its answer does not arrive. */
  holdReplyWhen(matches: (message: BackendMessage) => boolean): Hold {
    return this.#hold((message) => message.direction === "down" && matches(message));
  }

  #hold(matches: (message: ProxyMessage) => boolean): Hold {
    const held = deferred<ProxyMessage>();
    let lane: Lane | undefined;
    const armed: ArmedHold = {
      matches,
      take: (where, message) => {
        lane = where;
        this.#rules.holds.delete(armed);
        held.resolve(message);
      },
    };
    this.#rules.holds.add(armed);
    return {
      held: (timeoutMs) => within(held.promise, `the proxy holds a message (${matches})`, timeoutMs),
      release: () => {
        this.#rules.holds.delete(armed);
        lane?.release();
      },
      drop: () => {
        this.#rules.holds.delete(armed);
        lane?.reset();
      },
    };
  }

  /** Calls back for every message at the moment it is passed on. Returns the function that ends this. */
  observe(observer: (message: ProxyMessage) => void): () => void {
    this.#rules.observers.add(observer);
    return () => {
      this.#rules.observers.delete(observer);
    };
  }

  /**
   * Totals since the start. For an exact number of flights delay the replies a little (`delay({ down: 5 })`):
   * otherwise a reply may slip between two writes of which the second did not wait for it.
   */
  counts(): ProxyCounts {
    return structuredClone(this.#rules.counts);
  }

  async close(): Promise<void> {
    await this.cut();
    this.#forget();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Starts a proxy that passes everything. It closes with the test file. */
export async function startProxy(options: ProxyOptions): Promise<TcpProxy> {
  const proxy = new TcpProxy(options);
  await proxy.listen();
  return proxy;
}
