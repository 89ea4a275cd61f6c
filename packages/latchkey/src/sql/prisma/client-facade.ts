import { emptyResult } from "../pg-clients/empty-result.ts";
import type { IsolationLevel } from "../transaction.ts";

/** The part of a `pg` client that Prisma's adapter uses to send statements. */
export interface PrismaPgClient {
  query(config: { readonly text: string }): Promise<unknown>;
}

/** A facade for a client on which a transaction is open: Prisma's BEGIN and its COMMIT or ROLLBACK are not sent. */
export class PrismaClientFacade {
  readonly #client: PrismaPgClient;
  readonly #isolation: IsolationLevel | null;
  #stage: "opening" | "opened" | "running" | "ended" = "opening";

  /** @param isolation the level that Latchkey has begun with; null: that of the session */
  constructor(client: PrismaPgClient, isolation: IsolationLevel | null) {
    this.#client = client;
    this.#isolation = isolation;
  }

  async query(config: { readonly text: string }): Promise<unknown> {
    return this.#isPrismas(config.text) ? emptyResult : this.#client.query(config);
  }

  /** Adds no listener, because Latchkey itself handles errors between two statements. */
  on(): this {
    return this;
  }

  removeListener(): this {
    return this;
  }

  /** Does nothing, because Latchkey releases the client to the pool. */
  release(): void {}

  /** Called when Prisma has passed on its `tx`. False if it opened that on something else. */
  started(): boolean {
    if (this.#stage !== "opened") return false;
    this.#stage = "running";
    return true;
  }

  /** Called when the handler is done with it. */
  ended(): void {
    this.#stage = "ended";
  }

  #isPrismas(text: string): boolean {
    if (this.#stage === "opening" && text === "BEGIN") {
      this.#stage = "opened";
      return true;
    }
    if (this.#stage === "opened") return this.#isIsolation(text);
    return this.#stage === "ended" && /^(?:COMMIT|ROLLBACK)$/u.test(text);
  }

  #isIsolation(text: string): boolean {
    const [, level] = /^SET TRANSACTION ISOLATION LEVEL (.+)$/u.exec(text) ?? [];
    if (level === undefined) return false;
    if (level.toLowerCase() === this.#isolation) return true;
    throw new TypeError(
      `PrismaClient's transactionOptions set the isolation level ${level}, and the operation does not: set \`isolation: ${JSON.stringify(level.toLowerCase())}\` on it`,
    );
  }
}
