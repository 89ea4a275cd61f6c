/** `latchkey list --dead` by age and reason, on Postgres and PGlite. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { openPglite } from "../../packages/latchkey/src/stores/pglite.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import { fillPgliteFolder } from "../support/ready-pglite.ts";
import { isThorough } from "../support/thorough.ts";
import { latchkey, latchkeyUnder, openPlace } from "./arrange.ts";
import { withConfig } from "./configs/described.ts";

/** Of each an effect and a message: only one is of this reason and old. */
const deaths = [
  ["refused-old", "refused"],
  ["spent-old", "attempts-spent"],
  ["spent-young", "attempts-spent"],
] as const;

async function fill<Tx>(store: Store<Tx>): Promise<void> {
  const made = createLatchkey({ store });
  const operation = made.operation("orders.create", { writes: "none" });
  for (const [key, code] of deaths) {
    const effect = made.effect(`${key}.send`, { deduplication: "none", execute: async (_: unknown) => null });
    await made.run(operation, { tenant: "t", key, input: null }, async ({ attempt }) => {
      attempt.enqueue(effect, {});
    });
    const wants = [{ effect: `${key}.send`, limit: 10 }];
    const [claimed] = (await store.outbox?.claim(wants, systemPorts.random.token(), 60_000)) ?? [];
    if (claimed === undefined) throw new Error("it was enqueued");
    const { id, fence } = claimed;
    await store.outbox?.end([{ id, fence, event: "die", errorCode: code, returned: false }]);
    const facts = {
      digest: Buffer.from(key).toString("hex").padEnd(64, "0"),
      source: "orders",
      operation: "orders.create",
      tenant: "t",
      key,
    };
    const letterId = systemPorts.random.uuid(systemPorts.clock.wallMs());
    const letter = { id: letterId, reason: code, contentType: null, payload: new Uint8Array(1) };
    expect(await store.messages?.bury(facts, letter, null)).toBe(true);
  }
}

const age = [
  "update latchkey.outbox set created_at = created_at - interval '3 hours' where key like '%-old'",
  "update latchkey.messages set died_at = died_at - interval '3 hours' where key like '%-old'",
];

interface Listing {
  readonly items: readonly { readonly key: string }[];
  readonly next: string | null;
}

function parsed(out: string): Listing {
  const { effects, messages, next } = JSON.parse(out);
  return { items: effects ?? messages, next };
}

describe.each([
  ["effects", []],
  ["messages", ["--messages"]],
])("%s are listed by age and reason", (_what, which) => {
  test("on Postgres, and the next page keeps both", async () => {
    const place = await openPlace();
    const list = async (...args: readonly string[]) => {
      const { exitCode, out, errors } = await latchkey(place.url, "list", "--dead", ...which, ...args);
      expect(exitCode, errors).toBe(0);
      return out;
    };
    const keys = async (...args: readonly string[]) =>
      parsed(await list("--json", ...args)).items.map(({ key }) => key);
    try {
      await fill(place.store);
      for (const text of age) await place.pool.query(text);
      expect(await keys()).toEqual(["refused-old", "spent-old", "spent-young"]);
      expect(await keys("--older-than", "2h")).toEqual(["refused-old", "spent-old"]);
      expect(await keys("--error-code", "attempts-spent")).toEqual(["spent-old", "spent-young"]);
      expect(await keys("--error-code", "attempts-spent", "--older-than", "2h")).toEqual(["spent-old"]);
      expect(await keys("--error-code", "refused", "--older-than", "1d")).toEqual([]);
      const { next } = parsed(await list("--json", "--older-than", "2h", "--limit", "1"));
      expect(await keys("--older-than", "2h", "--after", next ?? "")).toEqual(["spent-old"]);
      const more = /More: latchkey list --dead .*--older-than 2h .*--limit 1 --after \S+$/u;
      expect(await list("--older-than", "2h", "--limit", "1")).toMatch(more);
    } finally {
      await place.close();
    }
  });

  test.runIf(isThorough)("on PGlite", async () => {
    const folder = mkdtempSync(join(tmpdir(), "latchkey-list-dead-"));
    const dataDir = join(folder, "data");
    try {
      await fillPgliteFolder(dataDir);
      const { store, database, close } = await openPglite(PGlite, { dataDir });
      await fill(store);
      for (const text of age) await database.query(text);
      await close();
      const only = ["--error-code", "attempts-spent", "--older-than", "2h"];
      const { exitCode, out, errors } = await withConfig({ pglite: dataDir }, (config) =>
        latchkeyUnder({}, "list", "--dead", ...which, ...only, "--config", config, "--json"),
      );
      expect(exitCode, errors).toBe(0);
      expect(parsed(out)).toMatchObject({ items: [{ key: "spent-old" }], next: null });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
