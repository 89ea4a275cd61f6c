/**
 * Hints as notifications of the database. They are sent in a transaction of their own, so that no user's COMMIT takes the
 * server's lock for notifications, and at most one statement at a time: hints that are sent in the meantime go with the next.
 */
import { StoreError } from "../../errors.ts";
import { type CancelTimer, pause } from "../../ports.ts";
import type { PgClient } from "../../sql/pg/client.ts";
import type { Connection, Connections } from "../../sql/pg/connections.ts";
import type { SqlStatement } from "../../sql/transaction.ts";
import { type RetryPauses, retryPauseMs } from "../../time/retry-pause.ts";
import type { Hint, HintSupport } from "../hints.ts";
import { sql } from "./sql/texts.ts";
import { plainStatement } from "./statements/statement.ts";

/** One for heartbeats, one for a transaction, one for the listener, and one that stays free. */
const connectionsMin = 4;
const channel = "latchkey";
const reconnectPauses: RetryPauses = { firstMs: 100, maxMs: 10_000 };
/** A connection that was lost without a message is noticed within this time and the statement's own limit. */
const checkEveryMs = 30_000;

const notify = plainStatement("notify", sql.notify);
const listenStatement: SqlStatement = { name: "lk_listen", text: `listen ${channel}`, values: [] };
const checkStatement: SqlStatement = { name: "lk_listening", text: "select 1 as listening", values: [] };

export interface PoolHints extends HintSupport {
  /** Ends all listening, and waits for hints that are being sent. */
  close(): Promise<void>;
}

/** All listeners of one store share one connection. */
interface Listening {
  readonly listener: HintListener;
  readonly listeners: Set<(hint: Hint) => void>;
  readonly begun: Promise<void>;
}

export function poolHints(connections: Connections, schema: string): PoolHints {
  const sender = new HintSender(connections, schema);
  let now: Listening | null = null;
  const begin = (): Listening => {
    const listeners = new Set<(hint: Hint) => void>();
    const listener = new HintListener(connections, schema, (hint) => {
      for (const onHint of [...listeners]) onHint(hint);
    });
    return { listener, listeners, begun: listener.begin() };
  };
  const end = (listening: Listening) => {
    if (now === listening) now = null;
    listening.listener.end();
  };
  return {
    send: (hint) => sender.send(hint),
    async listen(onHint) {
      if ((connections.max ?? connectionsMin) < connectionsMin) {
        const message = `Listening for hints needs a pool of at least ${connectionsMin} connections`;
        throw new StoreError("not_sent", { message });
      }
      now ??= begin();
      const listening = now;
      // A new function for each call, so that the same one may listen twice.
      const own = (hint: Hint) => onHint(hint);
      listening.listeners.add(own);
      try {
        await listening.begun;
      } catch (error) {
        end(listening);
        throw error;
      }
      return async () => {
        if (listening.listeners.delete(own) && listening.listeners.size === 0) end(listening);
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
    const reply = await connection.sendPipeline([notify.bind({ channel, hints: JSON.stringify(hints) })]);
    if (reply.status === "I") connection.giveBack();
    else connection.destroy();
  }
}

interface Notification {
  readonly channel: string;
  readonly payload?: string;
}

/** Further events of `pg` clients. */
interface NotifiedClient {
  on(event: "notification", listener: (notification: Notification) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  removeListener(event: string, listener: (...args: never[]) => void): unknown;
}

class HintListener {
  readonly #connections: Connections;
  readonly #schema: string;
  readonly #onHint: (hint: Hint) => void;
  readonly #ended = new AbortController();
  #end = () => {};

  constructor(connections: Connections, schema: string, onHint: (hint: Hint) => void) {
    this.#connections = connections;
    this.#schema = schema;
    this.#onHint = onHint;
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
    /** Destroys the connection instead of releasing it, because its session goes on listening. */
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
      // Before that, the callers of `begin` retry themselves: with two connections hints would arrive twice, and only one could be ended.
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

  /** Hints sent in the meantime are lost, so everything may be due. */
  async #reconnect(): Promise<void> {
    const { clock, random } = this.#connections.options;
    const { signal } = this.#ended;
    for (let tries = 1; !signal.aborted; tries++) {
      await pause(clock, retryPauseMs(tries, random, reconnectPauses), signal, "background");
      if (signal.aborted) return;
      try {
        await this.#connect();
        if (!signal.aborted) for (const hint of ["effects", "pending"] as const) this.#onHint(hint);
        return;
      } catch {
        // The next try comes later.
      }
    }
  }

  #onNotification({ channel: sender, payload = "" }: Notification): void {
    if (sender !== channel || this.#ended.signal.aborted) return;
    const [schema, hint] = payload.split(":");
    if (schema === this.#schema && (hint === "effects" || hint === "pending")) this.#onHint(hint);
  }
}
