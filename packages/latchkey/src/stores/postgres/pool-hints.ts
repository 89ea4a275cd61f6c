/**
 * Hints as notifications of the database. They are sent on a connection of their own transaction, so that nobody's
 * COMMIT takes the lock that the server has for them, and at most one statement at a time: what is said meanwhile goes
 * with the next.
 */
import { StoreError } from "../../errors.ts";
import { type CancelTimer, pause } from "../../ports.ts";
import type { PgClient } from "../../sql/pg/client.ts";
import type { Connection, Connections } from "../../sql/pg/connections.ts";
import type { SqlStatement } from "../../sql/transaction.ts";
import type { Hint, HintSupport } from "../hints.ts";

/** One for heartbeats, one for a transaction, one for the listener, and one that stays free. */
const connectionsMin = 4;
const channel = "latchkey";
const backoffMs = 100;
const backoffMaxMs = 10_000;
/** A connection that was lost without a word is found out within this and the statement's own limit. */
const checkEveryMs = 30_000;

const listenStatement: SqlStatement = { name: "lk_listen", text: `listen ${channel}`, values: [] };
const checkStatement: SqlStatement = { name: "lk_listening", text: "select 1 as listening", values: [] };

export interface PoolHints extends HintSupport {
  /** Ends all listening, and waits for what is being sent. */
  close(): Promise<void>;
}

/** All who listen through one store share one connection. */
interface Listening {
  readonly listener: HintListener;
  readonly hearers: Set<(hint: Hint) => void>;
  readonly begun: Promise<void>;
}

export function poolHints(connections: Connections, schema: string): PoolHints {
  const sender = new HintSender(connections, schema);
  let now: Listening | null = null;
  const begin = (): Listening => {
    const hearers = new Set<(hint: Hint) => void>();
    const listener = new HintListener(connections, schema, (hint) => {
      for (const hear of [...hearers]) hear(hint);
    });
    return { listener, hearers, begun: listener.begin() };
  };
  const end = (listening: Listening) => {
    if (now === listening) now = null;
    listening.listener.end();
  };
  return {
    send: (hint) => sender.send(hint),
    async listen(hear) {
      if ((connections.max ?? connectionsMin) < connectionsMin) {
        const message = `Listening for hints needs a pool of at least ${connectionsMin} connections`;
        throw new StoreError("not_sent", { message });
      }
      now ??= begin();
      const listening = now;
      // One of its own for each call, so that the same function may listen twice.
      const own = (hint: Hint) => hear(hint);
      listening.hearers.add(own);
      try {
        await listening.begun;
      } catch (error) {
        end(listening);
        throw error;
      }
      return async () => {
        if (listening.hearers.delete(own) && listening.hearers.size === 0) end(listening);
      };
    },
    async close() {
      if (now !== null) end(now);
      await sender.idle();
    },
  };
}

class HintSender {
  readonly #connections: Connections;
  readonly #schema: string;
  readonly #waiting = new Set<Hint>();
  #sending: Promise<void> | null = null;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#schema = schema;
  }

  send(hint: Hint): void {
    this.#waiting.add(hint);
    this.#sending ??= this.#sendAll();
  }

  async idle(): Promise<void> {
    await this.#sending;
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.size > 0) {
      const hints = [...this.#waiting].map((hint) => `${this.#schema}:${hint}`);
      this.#waiting.clear();
      await this.#notify(hints).catch(() => {});
    }
    this.#sending = null;
  }

  async #notify(hints: readonly string[]): Promise<void> {
    const connection = await this.#connections.take();
    const reply = await connection.sendPipeline([
      {
        name: "lk_notify",
        // Nothing is lost with it that a poll does not find: it need not wait for the disk.
        text: `select pg_catalog.pg_notify('${channel}', h.hint)::text as told,
            pg_catalog.set_config('synchronous_commit', 'off', true) as unsynced
          from pg_catalog.json_array_elements_text($1::text::json) h(hint)`,
        values: [JSON.stringify(hints)],
      },
    ]);
    if (reply.status === "I") connection.giveBack();
    else connection.destroy();
  }
}

interface Notification {
  readonly channel: string;
  readonly payload?: string;
}

/** What `pg` clients emit besides. */
interface NotifiedClient {
  on(event: "notification", listener: (notification: Notification) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  removeListener(event: string, listener: (...args: never[]) => void): unknown;
}

class HintListener {
  readonly #connections: Connections;
  readonly #schema: string;
  readonly #hear: (hint: Hint) => void;
  readonly #ended = new AbortController();
  #end = () => {};

  constructor(connections: Connections, schema: string, hear: (hint: Hint) => void) {
    this.#connections = connections;
    this.#schema = schema;
    this.#hear = hear;
  }

  /** @throws {StoreError} when the first connection fails */
  async begin(): Promise<void> {
    await this.#connect();
  }

  end(): void {
    this.#ended.abort();
    this.#end();
  }

  async #connect(): Promise<void> {
    const unreserve = this.#connections.reserve();
    let connection: Connection;
    try {
      connection = await this.#connections.take();
    } catch (error) {
      unreserve();
      throw error;
    }
    const client = connection.client as PgClient & NotifiedClient;
    let cancelCheck: CancelTimer = () => {};
    let open = true;
    let listening = false;
    /** The connection says LISTEN for ever, so it does not go back into the pool. */
    const close = () => {
      if (!open) return;
      open = false;
      cancelCheck();
      client.removeListener("notification", onNotification);
      client.removeListener("end", onEnd);
      connection.destroy();
      unreserve();
    };
    const onNotification = (notification: Notification) => this.#onNotification(notification);
    const onEnd = () => {
      if (!open) return;
      close();
      // Before that, callers that want this connection try again: two would listen twice, and only one could be ended.
      if (listening) void this.#reconnect();
    };
    const check = () => {
      const look = () => {
        void connection.sendPipeline([checkStatement]).then((reply) => {
          if (!open) return;
          if (reply.status === "I" && connection.usable) check();
          else onEnd();
        });
      };
      cancelCheck = this.#connections.options.clock.startTimer(checkEveryMs, look, "background");
    };
    client.on("notification", onNotification);
    client.on("end", onEnd);
    const reply = await connection.sendPipeline([listenStatement]);
    if (reply.error !== null || reply.status !== "I" || !open || this.#ended.signal.aborted) {
      close();
      if (this.#ended.signal.aborted) return;
      const certainty = reply.sent ? "rolled_back" : "not_sent";
      throw new StoreError(certainty, { cause: reply.error, message: "LISTEN failed" });
    }
    this.#end = close;
    listening = true;
    check();
  }

  /** What was said meanwhile is lost, so everything may be due. */
  async #reconnect(): Promise<void> {
    const { clock } = this.#connections.options;
    const { signal } = this.#ended;
    for (let delayMs = backoffMs; !signal.aborted; delayMs = Math.min(delayMs * 2, backoffMaxMs)) {
      await pause(clock, delayMs, signal, "background");
      if (signal.aborted) return;
      try {
        await this.#connect();
        if (!signal.aborted) for (const hint of ["effects", "pending"] as const) this.#hear(hint);
        return;
      } catch {
        // The next try comes later.
      }
    }
  }

  #onNotification({ channel: heard, payload = "" }: Notification): void {
    if (heard !== channel || this.#ended.signal.aborted) return;
    const [schema, hint] = payload.split(":");
    if (schema === this.#schema && (hint === "effects" || hint === "pending")) this.#hear(hint);
  }
}
