import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  begin,
  callInDoubt,
  complete,
  jsonAnswer,
  keyOf,
  latchkey,
  openPlace,
  ownerOf,
  type Place,
  stateOf,
} from "./arrange.ts";

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

const signed = ["--operator", "ada", "--reason", "contract ended"];
const deleting = (...args: readonly string[]) => latchkey(place.url, "delete-tenant", ...args);

async function finish(tenant: string): Promise<void> {
  const key = keyOf("done", { tenant });
  await complete(place, ownerOf(key, await begin(place, key)), jsonAnswer(201, {}));
}

describe("delete-tenant", () => {
  test("a dry run counts, --yes deletes, and again there is nothing", async () => {
    await finish("gone");
    const dry = await deleting("gone", "--dry-run");
    expect(dry).toMatchObject({ exitCode: 0, errors: "" });
    expect(dry.out).toContain("Over        1 records, 0 effects, 0 messages, 0 audit rows");
    expect(await stateOf(place, keyOf("done", { tenant: "gone" }))).toBe("completed");
    const done = await deleting("gone", "--yes", ...signed);
    expect(done).toMatchObject({ exitCode: 0, errors: "" });
    expect(done.out).toMatch(/^gone: deleted 1 records, .* Audit row [0-9a-f-]{36}\.$/u);
    expect(await stateOf(place, keyOf("done", { tenant: "gone" }))).toBeNull();
    const again = await deleting("gone", "--yes", ...signed, "--json");
    expect(JSON.parse(again.out)).toMatchObject({ tenant: "gone", kind: "deleted", removed: { records: 0 } });
  });

  test("is refused with exit code 4 while something runs or is undecided", async () => {
    const running = keyOf("running", { tenant: "busy" });
    const record = await begin(place, running);
    await callInDoubt(place, keyOf("doubt", { tenant: "busy" }));
    const busy = await deleting("busy", "--yes", ...signed, "--undecided");
    expect(busy).toMatchObject({ exitCode: 4, out: "" });
    expect(busy.errors).toContain("Not deleted. Work of the tenant is under way.");
    await complete(place, ownerOf(running, record), jsonAnswer(201, {}));
    expect((await deleting("busy", "--yes", ...signed)).errors).toContain("waits for a decision");
    expect(await deleting("busy", "--yes", ...signed, "--undecided", "--audit-rows")).toMatchObject({
      exitCode: 0,
    });
    expect(await stateOf(place, keyOf("doubt", { tenant: "busy" }))).toBeNull();
  });

  test.each([
    ["no tenant", ["--yes", ...signed], "Name one tenant"],
    ["neither --dry-run nor --yes", ["t", ...signed], "Use --dry-run"],
    ["both", ["t", "--dry-run", "--yes", ...signed], "Use --dry-run"],
    ["nobody who decides", ["t", "--yes", "--reason", "x"], "--operator is required"],
    ["a wait that is none", ["t", "--dry-run", "--wait", "soon"], "--wait must be"],
  ])("called wrongly: %s", async (_, args, message) => {
    const { exitCode, errors } = await deleting(...args);
    expect(exitCode).toBe(2);
    expect(errors).toContain(message);
  });
});
