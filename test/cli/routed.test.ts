/** The command line on a service with several databases, by its config. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { spawnWorker } from "../support/processes.ts";
import { callInDoubt, keyOf, openPlace, type Place, stateOf } from "./arrange.ts";

const main = new URL("../../packages/latchkey/src/cli/main.ts", import.meta.url);
const config = join(import.meta.dirname, "configs/routed.ts");
const tenants = ["ada", "bob"] as const;
const keys = tenants.map((tenant) => keyOf("order-1", { tenant }));

let places: readonly Place[] = [];
let ids: readonly string[] = [];
let urls = "";
beforeAll(async () => {
  places = await Promise.all(tenants.map(() => openPlace()));
  urls = JSON.stringify(Object.fromEntries(tenants.map((tenant, at) => [tenant, places[at]?.url])));
  const made: string[] = [];
  for (const [at, place] of places.entries()) {
    const [key] = keys.slice(at);
    if (key !== undefined) made.push((await callInDoubt(place, key)).id);
  }
  ids = made;
});
afterAll(async () => {
  for (const place of places) await place.close();
});

/** In a process of its own, as the config opens pools when it is loaded. */
async function cli(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawnWorker(main, {
    args: [...args, "--config", config],
    env: { ROUTED_URLS: urls, ...env },
  });
  const { code } = await child.exited;
  const lines = child.lines.map((line) => ("text" in line ? String(line.text) : JSON.stringify(line)));
  return { code, out: lines.join("\n"), errors: child.stderr() };
}

const settling = (id: string) => [
  ...["settle", id, "--call", "charged", "--result", '{"id":"ch_1"}'],
  ...["--operator", "ada", "--reason", "seen at the provider's"],
];

test("list shows the records of all databases, and one tenant's alone", async () => {
  const all = await cli(["list", "--json"]);
  expect(all).toMatchObject({ code: 0, errors: "" });
  for (const id of ids) expect(all.out).toContain(id);
  const one = await cli(["list", "--json", "--tenant", "bob"]);
  expect(one.out).toContain(ids[1]);
  expect(one.out).not.toContain(ids[0]);
});

test("inspect finds a record by its id, wherever it is", async () => {
  const found = await cli(["inspect", ids[1] ?? ""]);
  expect(found).toMatchObject({ code: 0, errors: "" });
  expect(found.out).toMatch(/Tenant\s+bob/u);
});

test("inspect gives commands with the config that it was given", async () => {
  const { out } = await cli(["inspect", ids[1] ?? ""]);
  expect(out).toContain(`--config ${config} --operator <you>`);
});

test("settle writes to the database that has the record, and to no other", async () => {
  const refused = await cli(settling(ids[1] ?? ""), { ROUTED_CODEC: "1" });
  expect(refused).toMatchObject({ code: 4 });
  expect(refused.errors).toContain("codec");
  const settled = await cli(settling(ids[1] ?? ""));
  expect(settled).toMatchObject({ code: 0, errors: "" });
  const states = await Promise.all(
    places.map(async (place, at) => stateOf(place, keyOf("order-1", { tenant: tenants[at] ?? "" }))),
  );
  expect(states).toEqual(["unknown", "retryable"]);
});

test("a config and a database are too much", async () => {
  const { code, errors } = await cli(["list", "--schema", "other"]);
  expect(code).toBe(2);
  expect(errors).toContain("exclude each other");
});

test("doctor looks at each database", async () => {
  const { code, out, errors } = await cli(["doctor"]);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  for (const place of ["1 postgres", "2 postgres"]) expect(out).toContain(`connection (${place})`);
});
