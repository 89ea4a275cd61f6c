/** Real clients against real faults: one effect each, and what their users see is what docs/clients.md says. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Deferred, deferred } from "../support/until.ts";
import { type Client, clients } from "./clients.ts";
import { documentedTable, markdownTable } from "./document.ts";
import { type Fault, faults, type Observation, type Outage, observe } from "./faults.ts";
import { type Lab, openLab } from "./lab.ts";

/** What each test waits for. */
const cells = new Map(
  faults.map((fault) => [fault, new Map(clients.map((client) => [client, deferred<Observation>()]))]),
);
let lab: Lab;
let finished: Promise<void>;

beforeAll(async () => {
  lab = await openLab();
  finished = observeAll();
});
afterAll(async () => {
  await finished;
  await lab?.close();
});

describe.each(faults)("$name", (fault) => {
  test.each(clients)("$name", async (client) => {
    const { attempts, keys, seen, afterwards, orders } = await cell(fault, client).promise;
    expect(orders).toHaveLength(1);
    expect(keys.size).toBe(1);
    expect(attempts).toBeGreaterThanOrEqual(1);
    expect(afterwards).toMatchObject({ kind: "answer", status: 201, body: { id: orders[0]?.id } });
    if (seen.kind === "answer" && seen.status === 201) expect(seen.body).toEqual(bodyOf(afterwards));
  });
});

test("docs/clients.md says what each client's user sees", async () => {
  const head = ["Client", ...faults.map(({ name }) => name)];
  const rows = clients.map(async (client) => [
    client.name,
    ...(await Promise.all(faults.map(async (fault) => shown(await cell(fault, client).promise, client)))),
  ]);
  expect(documentedTable("faults")).toBe(markdownTable([head, ...(await Promise.all(rows))]));
});

function cell(fault: Fault, client: Client): Deferred<Observation> {
  const found = cells.get(fault)?.get(client);
  if (found === undefined) throw new Error(`no cell for ${client.name} in ${fault.name}`);
  return found;
}

/** At once, but not so many that a busy machine with two cores misses the clients' time-outs. */
const waves = [faults.slice(0, 2), faults.slice(2, 5), faults.slice(5)];

async function observeAll(): Promise<void> {
  for (const wave of waves) await Promise.all(wave.map(observeFault));
}

async function observeFault(fault: Fault): Promise<void> {
  const outage = fault.needsOutage ? await openOutage() : noOutage;
  const settled = clients.map((client) => {
    const { promise, resolve, reject } = cell(fault, client);
    observe(lab, client, fault, outage).then(resolve, reject);
    return promise;
  });
  await Promise.allSettled(settled);
}

const noOutage: Outage = { over: () => Promise.reject(new Error("the store is there")) };

/** Ends when all clients wait for its end. */
async function openOutage(): Promise<Outage> {
  await lab.takeStoreAway();
  const over = deferred();
  let waiting = 0;
  return {
    over() {
      waiting += 1;
      if (waiting === clients.length) lab.giveStoreBack().then(over.resolve, over.reject);
      return over.promise;
    },
  };
}

function shown({ seen, attempts }: Observation, { answersAreResults }: Client): string {
  const sent = attempts === 1 ? "1 request" : `${attempts} requests`;
  if (seen.kind === "error")
    return `\`${seen.name}\`${seen.status === null ? "" : ` ${seen.status}`}, ${sent}`;
  if (seen.status === 201) return `**201**, ${sent}`;
  return answersAreResults ? `${seen.status} as if done, ${sent}` : `${seen.status}, ${sent}`;
}

function bodyOf(seen: Observation["afterwards"]): unknown {
  return seen.kind === "answer" ? seen.body : undefined;
}
