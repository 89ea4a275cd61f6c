/** What is unknown on Redis, through the config of its service. */
import { createClient } from "redis";
import { afterEach, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { redisStore } from "../../packages/latchkey/src/stores/redis.ts";
import { redisProgram, startRedis } from "../support/private-redis.ts";
import { onRelease, releaseAll } from "../support/resources.ts";
import { latchkeyUnder } from "./arrange.ts";
import { withConfig } from "./configs/described.ts";

afterEach(releaseAll);

test.skipIf(redisProgram() === undefined)(
  "is listed, shown and settled; the audit log over all keys is refused",
  async () => {
    const server = await startRedis();
    if (server === undefined) return;
    onRelease(() => server.stop());
    const client = createClient({ url: server.url });
    await client.connect();
    onRelease(() => client.destroy());
    const made = createLatchkey({ store: redisStore({ client, onWarning: () => {} }) });
    const charge = made.operation("payments.charge", { execution: "lease" });
    const request = { tenant: "account-1", key: "order-42", input: null };
    const lost = async () => {
      throw new Error("lost");
    };
    await expect(made.run(charge, request, lost)).rejects.toThrow("lost");

    const command = (...args: readonly string[]) =>
      withConfig({ redis: server.url }, (config) => latchkeyUnder({}, ...args, "--config", config));
    const listed = JSON.parse((await command("list", "--json")).out);
    expect(listed.records).toMatchObject([{ tenant: "account-1", operation: "payments.charge" }]);
    const [{ id }] = listed.records;
    const shown = await command("inspect", id);
    expect([shown.exitCode, shown.out]).toEqual([0, expect.stringMatching(/^State +unknown$/mu)]);
    const answer = '{"status":201,"headers":{},"body":"charged"}';
    const by = ["--operator", "ada", "--reason", "on the bank's statement"];
    const settled = await command("settle", id, "--completed", answer, ...by);
    expect([settled.exitCode, settled.errors]).toEqual([0, ""]);
    expect(await made.run(charge, request, lost)).toMatchObject({ kind: "replay" });
    expect((await command("inspect", id)).out).toContain("on the bank's statement");
    const audit = await command("list", "--audit");
    expect([audit.exitCode, audit.errors]).toEqual([1, expect.stringContaining("by key only")]);
  },
);
