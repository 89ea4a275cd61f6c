/** A killed RabbitMQ keeps what `wrote` has waited for, and loses what it would still wait for. */
import { readdirSync, readFileSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { Connection } from "rabbitmq-client";
import { afterAll, expect, test } from "vitest";
import { isCommitted } from "./mnesia-log.ts";
import { type PrivateBroker, startRabbitmq } from "./private-brokers.ts";
import { releaseAll } from "./resources.ts";
import { isThorough } from "./thorough.ts";

afterAll(releaseAll);

test.runIf(isThorough)(
  "a queue whose declaration has no outcome in the log is forgotten, and one that has is not",
  async (context) => {
    const broker = await startRabbitmq();
    if (!broker?.own) return context.skip("there is no RabbitMQ that may be killed");
    const { own, url } = broker;
    const connection = new Connection({ url, retryLow: 100, retryHigh: 500 });
    connection.on("error", () => {});
    const there = (queue: string) => connection.queueDeclare({ queue, passive: true });

    await connection.queueDeclare({ queue: "first", durable: true });
    await own.wrote("first");
    await own.restart();
    expect(await there("first")).toMatchObject({ queue: "first" });

    await connection.queueDeclare({ queue: "second", durable: true });
    await own.wrote("second");
    await own.kill9();
    const log = logOf(own);
    const text = readFileSync(log, "latin1");
    expect([isCommitted(text, "second"), isCommitted(text, "third")]).toEqual([true, false]);
    truncateSync(log, outcomeAt(text, "second"));
    const cut = readFileSync(log, "latin1");
    expect([cut.includes("second"), isCommitted(cut, "second")]).toEqual([true, false]);
    await own.start();
    await expect(there("second")).rejects.toThrow("NOT_FOUND");
    expect(await there("first")).toMatchObject({ queue: "first" });
    await connection.close();
  },
);

function logOf(own: PrivateBroker): string {
  const files = readdirSync(own.folder, { recursive: true, encoding: "utf8" });
  const name = files.find((file) => file.endsWith("LATEST.LOG"));
  if (name === undefined) throw new Error("Mnesia has no log");
  return join(own.folder, name);
}

/** Where the term after the one with this name starts: four bytes of length, and the marker of a term. */
function outcomeAt(text: string, name: string): number {
  return text.indexOf("bWLA", text.lastIndexOf(name)) - 4;
}
