/** What the fixture does after its answer: notices through the outbox, reports by a worker. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Fixture, startFixture, temporaryFolder } from "../support/fixture.ts";
import { releaseAll } from "../support/resources.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";
import { somePlaces } from "./places.ts";

interface Notice {
  readonly key: string;
  readonly body: { readonly orderId: string; readonly item: string };
}

/** Every request that arrived, and how the next ones are answered; then 204. */
const arrived: Notice[] = [];
const answers: (number | "cut")[] = [];
const receiver = createServer(async (request, response) => {
  arrived.push(await noticeIn(request));
  const answer = answers.shift() ?? 204;
  if (answer === "cut") request.socket.destroy();
  else response.writeHead(answer).end();
});
let downstream = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  downstream = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
});
beforeEach(() => {
  arrived.length = 0;
  answers.length = 0;
});
afterAll(async () => {
  await releaseAll();
  receiver.closeAllConnections();
  receiver.close();
});

async function noticeIn(request: IncomingMessage): Promise<Notice> {
  expect(request.url).toBe("/notifications");
  return { key: String(request.headers["idempotency-key"]), body: JSON.parse(await text(request)) };
}

const keysOf = (item: string) =>
  new Set(arrived.filter(({ body }) => body.item === item).map(({ key }) => key));
const notify = (fixture: Fixture, key: string, query = "") =>
  fixture.post(`/notify${query}`, key, { body: { item: key, amount: 1 } });

async function report(fixture: Fixture, location: string) {
  return until(
    async () => {
      const answer = await fixture.request(location);
      return answer.status === 202 ? undefined : answer;
    },
    { what: `${location} is finished` },
  );
}

describe.each(somePlaces)("$http on $store", ({ http, store }) => {
  let fixture: Fixture;
  let end: () => Promise<void>;
  beforeAll(async () => {
    const database = store === "postgres" ? await freshDatabase() : null;
    const args = ["--data", temporaryFolder(), "--downstream", downstream];
    fixture = await startFixture({ http, store: database?.url ?? store, args });
    end = async () => {
      await fixture.worker.stop();
      await database?.drop();
    };
  });
  afterAll(() => end?.());

  test("/notify: one order, one notice, whatever the receiver does at first", async () => {
    answers.push(503, "cut");
    const first = await notify(fixture, "notice");
    expect(first.status).toBe(201);
    const second = await notify(fixture, "notice");
    expect(second).toMatchObject({ status: 201, replayed: true, text: first.text });
    await until(() => arrived.length >= 3, { what: "the notice is accepted" });
    expect(keysOf("notice").size).toBe(1);
    const { id } = first.json() as { id: string };
    expect(arrived.at(-1)?.body).toEqual({ orderId: id, item: "notice", amount: 1 });
    expect((await fixture.ledger()).filter((row) => row.key === "notice")).toMatchObject([{ id }]);
  });

  test("/notify: nothing goes out for what was rolled back or released", async () => {
    for (const then of ["throw", "500", "429", "release"]) {
      expect((await notify(fixture, `gone-${then}`, `?then=${then}`)).status).toBeGreaterThanOrEqual(400);
    }
    await notify(fixture, "after");
    await until(() => keysOf("after").size === 1, { what: "a later notice arrives" });
    expect(arrived.every(({ body }) => body.item === "after")).toBe(true);
  });

  test("/reports: 202 while it is made, then the same answer from both addresses", async () => {
    const asked = await fixture.post("/reports?ms=50", "report");
    expect(asked.status).toBe(202);
    const [location = ""] = asked.lines("Location");
    expect(location).toMatch(/^\/operations\/[0-9a-f-]{36}$/u);
    expect(Number(asked.lines("Retry-After")[0])).toBeGreaterThanOrEqual(1);
    const made = await report(fixture, location);
    expect(made).toMatchObject({ status: 200, replayed: true });
    expect(made?.json()).toEqual({ rows: expect.any(Number) });
    const again = await fixture.post("/reports?ms=50", "report");
    expect(again).toMatchObject({ status: 200, replayed: true, text: made?.text });
    expect(await fixture.starts("/reports")).toBe(1);
  });

  test("/reports: nobody else sees one; another body is misuse; a bad ?ms= is nothing at all", async () => {
    const asked = await fixture.post("/reports", "mine", { principal: "ada" });
    const [location = ""] = asked.lines("Location");
    expect((await fixture.request(location, { tenant: "tenant-2" })).status).toBe(404);
    expect((await fixture.request(location, { principal: "bob" })).status).toBe(404);
    expect((await fixture.request(location, { tenant: null })).status).toBe(401);
    expect((await fixture.request("/operations/nothing")).status).toBe(404);
    const other = await fixture.post("/reports?ms=1", "mine", { principal: "ada" });
    expect(other.json()).toMatchObject({ code: "key-misuse" });
    expect((await fixture.post("/reports?ms=soon", "bad")).status).toBe(400);
    expect((await fixture.post("/reports", "bad")).status).toBe(202);
  });
});
