/** What `ops/` asks Prometheus for is there, and every alert has a part in the document that it names. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import { createMetrics } from "../../packages/latchkey/src/telemetry/metrics.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(root, path), "utf8");

/** Names of all series, and their types. */
async function exposed(): Promise<ReadonlyMap<string, string>> {
  const text = createMetrics().text(await createLatchkey({ store: memoryStore() }).overview());
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gmu)].map(
    ([, name = "", type = ""]) => [name, type] as const,
  );
  return new Map(
    types.flatMap(([name, type]) =>
      type === "histogram"
        ? [
            [`${name}_bucket`, type],
            [`${name}_count`, type],
            [`${name}_sum`, type],
          ]
        : [[name, type]],
    ) as [string, string][],
  );
}

const asked = (text: string) => [...new Set(text.match(/\bapi_idempotency_\w+/gu))];

describe.each(["ops/alerts.yml", "ops/grafana.json"])("%s", (path) => {
  test("asks for series that there are", async () => {
    const names = await exposed();
    const wanted = asked(read(path));
    expect(wanted.length).toBeGreaterThan(5);
    expect(wanted.filter((name) => !names.has(name))).toEqual([]);
  });

  test("takes rates of counters and histograms, and of nothing else", async () => {
    const names = await exposed();
    const rated = [...read(path).matchAll(/\b(?:rate|increase)\((api_idempotency_\w+)/gu)].map(
      ([, name = ""]) => name,
    );
    expect(rated.length).toBeGreaterThan(2);
    expect(rated.filter((name) => names.get(name) === "gauge")).toEqual([]);
  });
});

test("every kind and label value that an alert selects exists", () => {
  const kinds = [...read("ops/alerts.yml").matchAll(/kind=~?"([^"]+)"/gu)].flatMap(([, value = ""]) =>
    value.split("|"),
  );
  const table = read("packages/latchkey/src/telemetry/metric-table.ts");
  for (const kind of kinds) expect(table).toContain(`"${kind}"`);
});

test("every alert has its part in docs/alerts.md, and every part its alert", () => {
  const alerts = [...read("ops/alerts.yml").matchAll(/^ +- alert: (\w+)$/gmu)].map(([, name]) => name);
  const parts = [...read("docs/alerts.md").matchAll(/^## (Latchkey\w+)$/gmu)].map(([, name]) => name);
  expect(parts).toEqual(alerts);
  const runbooks = [...read("ops/alerts.yml").matchAll(/runbook: (\S+)#(\w+)$/gmu)];
  expect(runbooks.map(([, page, part]) => [page, part])).toEqual(
    alerts.map((name) => ["docs/alerts.md", name?.toLowerCase()]),
  );
});
