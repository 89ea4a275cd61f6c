/** What others chose (keys, tenants, ids of messages, codes, a database's words) never steers a terminal nor forges a line. */
import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLatchkey, type Message } from "../../packages/latchkey/src/index.ts";
import { createInbox } from "../../packages/latchkey/src/messages/inbox.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import {
  begin,
  bytes,
  type CommandOutput,
  endInDoubt,
  latchkey,
  openPlace,
  ownerOf,
  type Place,
} from "./arrange.ts";

const hostile = "\u001b[2J\u009b31m\u202e\u2066\u2028\u0007\u200b\r\nforged line";
const operation = `pay ${hostile}`;
const tenant = `account ${hostile}`;

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

const cli = (...args: readonly string[]) => latchkey(place.url, ...args);
const signed = ["--operator", `ada ${hostile}`, "--reason", `because ${hostile}`];

function expectPlain({ out, errors }: CommandOutput, from: string): void {
  for (const text of [out, errors]) {
    expect(text.match(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u)?.[0], from).toBe(undefined);
    expect(text, from).not.toMatch(/^forged line/mu);
  }
}

async function unknown(key: string): Promise<string> {
  const place1 = { tenant, scope: operation, key };
  const record = await begin(place, place1, bytes({ note: hostile }));
  await endInDoubt(place, ownerOf(place1, record), `code ${hostile}`);
  return record.id;
}

test("records", async () => {
  const id = await unknown(`key ${hostile}`);
  const calls: (readonly string[])[] = [
    ["list"],
    ["list", "--limit", "1"],
    ["list", "--limit", "1", "--tenant", tenant, "--operation", operation],
    ["inspect", tenant, operation, `key ${hostile}`],
    ["inspect", tenant, operation, `never ${hostile}`],
    ["settle", id, "--not-executed", "--dry-run", ...signed],
    ["settle", tenant, operation, `key ${hostile}`, "--not-executed", ...signed],
    ["settle", id, "--call", `call ${hostile}`, "--result", "{}", ...signed],
    ["settle", id, "--result", hostile, ...signed],
    ["settle", id, "--not-executed", ...signed],
    ["settle", id, "--not-executed", ...signed],
    ["inspect", id],
  ];
  for (const call of calls) {
    for (const more of [[], ["--json"]]) {
      const output = await cli(...call, ...more);
      expectPlain(output, `${call.slice(0, 2)} ${more}`);
      expect(output.out + output.errors, `${call.slice(0, 2)} ${more}`).not.toBe("");
    }
  }
  expect((await cli("inspect", id)).out).toContain("\\u001b[2J");
});

test("dead effects", async () => {
  const service = createLatchkey({ store: place.store });
  const effect = service.effect("receipt.send", { deduplication: "none", execute: async () => null });
  const pay = service.operation("receipts", { execution: "transaction" });
  const key = `dead ${hostile}`;
  await service.run(pay, { tenant, key, input: null }, async ({ attempt }) => {
    attempt.enqueue(effect, { note: hostile }, { aggregate: `aggregate ${hostile}` });
    return null;
  });
  const { outbox } = place.store;
  const token = systemPorts.random.token();
  const claims = (await outbox?.claim([{ effect: "receipt.send", limit: 1 }], token, 60_000)) ?? [];
  const died = { event: "die", errorCode: `code ${hostile}`, returned: false } as const;
  await outbox?.end(claims.map(({ id, fence }) => ({ id, fence, ...died })));
  const id = claims[0]?.id ?? "";
  for (const call of [
    ["list", "--dead"],
    ["inspect", tenant, "receipts", key],
    ["redrive", `id ${hostile}`, ...signed],
    ["discard", id, ...signed],
    ["inspect", tenant, "receipts", key],
  ]) {
    for (const more of call[0] === "discard" ? [[]] : [[], ["--json"]])
      expectPlain(await cli(...call, ...more), `${call[0]}`);
  }
});

test("dead messages", async () => {
  const service = createLatchkey({ store: place.store });
  const ship = service.operation("ship", { execution: "transaction" });
  const failing = async () => {
    throw Object.assign(new Error(hostile), { code: `code ${hostile}` });
  };
  const inbox = createInbox(service, ship, { tenant: () => tenant }, failing);
  const message: Message = {
    id: `id ${hostile}`,
    source: `source ${hostile}`,
    body: Buffer.from(`{"note":${JSON.stringify(hostile)}`),
    contentType: `text/plain; ${hostile}`,
    headers: {},
    redelivered: false,
  };
  expect(await inbox.consume(message)).toMatchObject({ settle: "dead" });
  const list = ["list", "--dead", "--messages", "--payload"];
  const [letter] = JSON.parse((await cli(...list, "--json")).out).messages;
  expect(letter).toMatchObject({ key: message.id, source: message.source });
  for (const call of [
    list,
    [...list, "--json"],
    ["inspect", letter.id, "--payload"],
    ["discard", letter.id, ...signed],
  ])
    expectPlain(await cli(...call), call.join(" ").slice(0, 20));
});

test("wrong calls", async () => {
  for (const call of [
    [hostile],
    ["list", `--${hostile}`],
    ["list", "--state", hostile],
    ["list", "--after", hostile],
    ["list", "--limit", hostile],
    ["list", "--schema", hostile],
    ["inspect", hostile],
    ["settle", hostile],
    ["redrive", hostile, ...signed],
    ["migrate", hostile],
    ["worker", "--config", hostile],
    ["list", "--dead", "--messages", "--config", hostile],
  ]) {
    const output = await cli(...call);
    expectPlain(output, call.join(" ").slice(0, 20));
    expect([call[0], output.exitCode]).not.toEqual([call[0], 0]);
  }
});

test("the words of a server that is no database", async () => {
  // An error in the wire protocol's form: severity, code and message.
  const fields = ["SFATAL", "C28000", `Mno ${hostile}`, "", ""].join("\0");
  const length = Buffer.alloc(4);
  length.writeInt32BE(4 + Buffer.byteLength(fields));
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(Buffer.concat([Buffer.from("E"), length, Buffer.from(fields)])));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as { port: number };
    const output = await latchkey(`postgres://u@127.0.0.1:${port}/db?sslmode=disable`, "list");
    expectPlain(output, "list");
    expect([output.exitCode, output.errors]).toEqual([1, expect.stringContaining("\\u001b[2J")]);
  } finally {
    server.close();
  }
});
