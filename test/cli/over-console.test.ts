/** Commands that ask the console of a running process. */
import { createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { consoleHandler, serveConsole } from "../../packages/latchkey-console/src/index.ts";
import {
  decideSome,
  fill,
  openWorld,
  type ServedWorld,
  serve,
  token,
  type World,
} from "../console/arrange.ts";
import { listen } from "../support/listen.ts";
import { latchkeyUnder } from "./arrange.ts";

let world: World;
let served: ServedWorld;
beforeAll(async () => {
  world = await openWorld();
  await fill(world);
  await decideSome(world);
  served = await serve(world, { basePath: "/console" });
});
afterAll(async () => {
  await served?.close();
  await world?.close();
});

/** With an address as the console has printed it, and no database to fall back on. */
const over = (...args: readonly string[]) =>
  latchkeyUnder(
    { DATABASE_URL: "postgres://nobody@127.0.0.1:1/none" },
    ...args,
    "--console",
    `${served.url}/#token=${encodeURIComponent(token)}`,
  );
const signed = ["--operator", "ada", "--reason", "ticket 7"] as const;

async function listed(...args: readonly string[]) {
  const { exitCode, out, errors } = await over("list", "--json", ...args);
  expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: "" });
  return JSON.parse(out);
}

async function unknownOf(key: string): Promise<string> {
  const { records } = await listed();
  return records.find((one: { readonly key: string }) => one.key === key)?.id;
}

describe("list", () => {
  test("unknowns, by tenant, page by page; the next page asks the same console, without its token", async () => {
    const { exitCode, out } = await over("list", "--tenant", "acme", "--limit", "2");
    expect(exitCode).toBe(0);
    expect(out).toMatch(/^CREATED +TENANT +OPERATION +KEY +RECORD +WAITS FOR +WHY$/mu);
    expect(out).toContain(
      `More: latchkey list --state unknown --tenant acme --console ${served.url} --limit 2 --after `,
    );
    expect(out).not.toContain(token);
    const after = /--after (\S+)$/u.exec(out)?.[1] ?? "";
    expect((await listed("--tenant", "acme", "--after", after)).records).toHaveLength(1);
    expect((await listed("--state", "retryable")).records).toEqual([]);
    expect((await listed("--older-than", "3d")).records).toEqual([]);
  });

  test("dead effects, dead messages and the audit log", async () => {
    const { out } = await over("list", "--dead", "--tenant", "acme");
    expect(
      out
        .split("\n")
        .slice(1)
        .map((line) => /order-\d+/u.exec(line)?.[0]),
    ).toEqual(["order-88091", "order-88092", "order-88093"]);
    expect((await over("list", "--dead", "--messages")).out).toBe("No message is dead.");
    expect((await over("list", "--audit", "--tenant", "globex")).out).toMatch(
      /grace +discard +globex +order-87110/u,
    );
  });
});

test("inspect: by id and by what the client sent, with commands for the same console", async () => {
  const id = await unknownOf("order-88211");
  const { exitCode, out } = await over("inspect", id);
  expect(exitCode).toBe(0);
  expect(out).toMatch(/^Key +order-88211$/mu);
  expect(out).toContain(`--console ${served.url} --operator <you> --reason <why> ${id}`);
  const named = await over("inspect", "acme", "payments.charge", "order-88211", "--json");
  expect(JSON.parse(named.out)).toMatchObject({ id, state: "unknown" });
  expect(await over("inspect", "acme", "payments.charge", "never-sent")).toMatchObject({ exitCode: 3 });
  expect(await over("inspect", "01a21904-e15a-769f-8000-0000000b60e3")).toMatchObject({ exitCode: 3 });
});

describe("settle", () => {
  test("a call with its result, what did not happen, and an answer; each with its audit row", async () => {
    const call = await unknownOf("order-88212");
    const done = await over("settle", call, "--call", "charged", "--result", '{"id":"ch_7"}', ...signed);
    expect(done).toMatchObject({ exitCode: 0, errors: "" });
    expect(done.out).toMatch(/^Settled: unknown → retryable \(settle_call\), audit row [0-9a-f-]{36}\.$/mu);
    const free = await unknownOf("order-88213");
    expect(await over("settle", free, "--not-executed", ...signed)).toMatchObject({ exitCode: 0 });
    const failed = await unknownOf("order-88214");
    const answer = '{"status":402,"body":{"error":"declined"}}';
    const json = await over("settle", failed, "--failed", answer, ...signed, "--json");
    expect(JSON.parse(json.out)).toMatchObject({
      settled: { actor: "ada", reason: "ticket 7", to: "failed" },
      record: { id: failed, state: "failed" },
    });
  });

  test("a record that is not unknown, another life, and a call that is none are refused; nothing is changed", async () => {
    const { record } = await world.place.store.read({
      tenant: "acme",
      scope: "payments.charge",
      key: "order-87002",
    });
    const id = record?.id ?? "";
    const refused = await over("settle", id, "--not-executed", ...signed);
    expect(refused).toMatchObject({ exitCode: 4, out: "" });
    const key = ["acme", "payments.charge", "order-88215"];
    const other = ["--record", "01a21904-e15a-769f-8000-0000000b60e3"];
    expect(await over("settle", ...key, ...other, "--not-executed", ...signed)).toMatchObject({
      exitCode: 4,
    });
    expect(await over("settle", ...key, "--not-executed", ...signed)).toMatchObject({ exitCode: 2 });
    const open = await unknownOf("order-88215");
    expect(await over("settle", open, "--call", "no-such", "--result", "{}", ...signed)).toMatchObject({
      exitCode: 4,
    });
    expect(await unknownOf("order-88215")).toBe(open);
  });
});

test("retry and forget", async () => {
  const unknown = await unknownOf("order-88216");
  const retried = await over("retry", unknown, ...signed);
  expect(retried).toMatchObject({ exitCode: 0, errors: "" });
  expect(retried.out).toMatch(/^Record [0-9a-f-]{36} \(unknown\) is due now\. Audit row [0-9a-f-]{36}\.$/u);
  const { record } = await world.place.store.read({
    tenant: "acme",
    scope: "payments.charge",
    key: "order-87002",
  });
  const id = record?.id ?? "";
  expect(await over("forget", id, ...signed)).toMatchObject({ exitCode: 2 });
  expect(await over("forget", id, ...signed, "--yes")).toMatchObject({ exitCode: 0 });
  expect(await over("forget", unknown, ...signed, "--yes")).toMatchObject({ exitCode: 4 });
});

test("redrive and discard, one after the other, with a result for each", async () => {
  const { effects } = await listed("--dead", "--tenant", "acme");
  const [first, second] = effects.map(({ death }: { readonly death: string }) => death);
  expect(await over("redrive", first, ...signed)).toMatchObject({ exitCode: 0 });
  const both = await over("discard", second, first, ...signed);
  expect(both.exitCode).toBe(4);
  expect(both.out).toContain(`${second}: dead → given up, audit row `);
  expect(both.errors).toContain(first);
});

describe("what is wrong is reported", () => {
  const at = (address: string, env: Readonly<Record<string, string>> = {}) =>
    latchkeyUnder(env, "list", "--console", address);

  test("no token, a wrong one, and one from the environment", async () => {
    expect(await at(served.url)).toMatchObject({
      exitCode: 2,
      errors: expect.stringContaining("LATCHKEY_CONSOLE_TOKEN"),
    });
    const wrong = await at(`${served.url}#token=${"x".repeat(20)}`);
    expect(wrong).toMatchObject({ exitCode: 1, errors: expect.stringContaining("not signed in") });
    expect(await at(served.url, { LATCHKEY_CONSOLE_TOKEN: token })).toMatchObject({ exitCode: 0 });
  });

  test("no address, nobody there, and a server that is no console", async () => {
    expect(await at("console")).toMatchObject({ exitCode: 2 });
    const unreachable = await at("http://127.0.0.1:1/console#token=t");
    expect(unreachable).toMatchObject({ exitCode: 1, errors: expect.stringContaining("does not answer") });
    const other = await listen(
      createServer((_, res) => void res.end("hello")).listeners("request")[0] as never,
    );
    const found = await at(`${other.url}#token=t`);
    await other.close();
    expect(found).toMatchObject({ exitCode: 1, errors: expect.stringContaining("No Latchkey console") });
  });

  test("options that need the database, and a console that only shows", async () => {
    expect(await over("list", "--schema", "other")).toMatchObject({ exitCode: 2 });
    expect(await over("settle", "--all", "--not-executed", ...signed)).toMatchObject({ exitCode: 2 });
    const { port, close } = await serveConsole(
      consoleHandler({ latchkey: world.latchkey, token, readOnly: true }),
      { port: 0 },
    );
    const id = await unknownOf("order-88215");
    const address = `http://127.0.0.1:${port}#token=${encodeURIComponent(token)}`;
    const refused = await latchkeyUnder({}, "settle", id, "--not-executed", ...signed, "--console", address);
    await close();
    expect(refused).toMatchObject({ exitCode: 1, errors: expect.stringContaining("read-only") });
  });

  test("a name that no header holds", async () => {
    const id = await unknownOf("order-88215");
    const refused = await over("retry", id, "--operator", "Ωmega", "--reason", "x");
    expect(refused).toMatchObject({ exitCode: 2, errors: expect.stringContaining("Latin-1") });
  });
});
