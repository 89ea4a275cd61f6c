/** Who waits as long as Retry-After says. A server that only counts, so that three seconds are enough to tell. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Listening, listen } from "../support/listen.ts";
import { type Client, clients } from "./clients.ts";
import { documentedTable, markdownTable } from "./document.ts";
import { api as gotApi } from "./settings/got.ts";

/** Longer than every client's own first delay. */
const retryAfterSeconds = 3;
const statuses = [409, 503] as const;
/** When the requests of each tenant came. */
const requests = new Map<string, number[]>();
let server: Listening;

beforeAll(async () => {
  server = await listen((request, response) => {
    const tenant = String(request.headers["x-tenant"]);
    const earlier = requests.get(tenant) ?? [];
    requests.set(tenant, [...earlier, performance.now()]);
    const refused = earlier.length === 0;
    request.resume().on("end", () => {
      response.statusCode = refused ? Number(tenant.slice(0, 3)) : 201;
      if (refused) response.setHeader("Retry-After", retryAfterSeconds);
      response.setHeader("Content-Type", "application/json").end("{}");
    });
  });
});
afterAll(() => server?.close());

test("docs/clients.md says who waits as long as Retry-After asks", async () => {
  const rows = clients.map(async (client) => [
    client.name,
    ...(await Promise.all(statuses.map((status) => afterRefusal(client, status)))),
  ]);
  const head = ["Client", ...statuses.map((status) => `after ${status}`)];
  expect(documentedTable("retry-after")).toBe(markdownTable([head, ...(await Promise.all(rows))]));
});

test("Got gives up when Retry-After is longer than its time-out, unless `maxRetryAfter` is set", async () => {
  const timeout = { request: 1_000 * retryAfterSeconds - 500 };
  const post = async (tenant: string, retry: object) =>
    gotApi.post(server.url, { headers: { "X-Tenant": tenant }, timeout, retry });
  await expect(post("409 got with a short time-out", { maxRetryAfter: undefined })).rejects.toMatchObject({
    response: { statusCode: 409 },
  });
  await expect(post("409 got that waits longer", {})).resolves.toMatchObject({ statusCode: 201 });
});

async function afterRefusal(client: Client, status: number): Promise<string> {
  const tenant = `${status} ${client.name}`;
  const port = Number(new URL(server.url).port);
  await client.send({ port, tenant, key: "k", item: "book", timeoutMs: null }).catch(() => {});
  const [first = 0, second] = requests.get(tenant) ?? [];
  if (second === undefined) return "no retry";
  // Node's timers may be a millisecond early.
  return second - first >= 1_000 * retryAfterSeconds - 5 ? "waits" : "its own delay";
}
