import { afterAll, beforeAll, expect, test } from "vitest";
import { bareDoubt, begin, callInDoubt, keyOf, latchkey, openPlace, type Place } from "./arrange.ts";

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

interface Page {
  readonly records: readonly { readonly key: string; readonly lastErrorCode: string }[];
  readonly next: string | null;
}

async function page(...args: readonly string[]): Promise<Page> {
  const { exitCode, out } = await latchkey(place.url, "list", "--json", ...args);
  expect(exitCode).toBe(0);
  return JSON.parse(out) as Page;
}

const keys = ({ records }: Page) => records.map(({ key }) => key);

test("says so when there is none, which is no failure", async () => {
  expect(await latchkey(place.url, "list")).toEqual({
    exitCode: 0,
    out: "No record is unknown.",
    errors: "",
  });
});

test("lists what is unknown, oldest first, page by page, by tenant and by operation", async () => {
  await callInDoubt(place, keyOf("a"));
  await bareDoubt(place, keyOf("b", { tenant: "account-2" }));
  await bareDoubt(place, keyOf("c", { scope: "mail.send" }));
  await begin(place, keyOf("running"));

  const { out } = await latchkey(place.url, "list", "--state", "unknown");
  const lines = out.split("\n");
  expect(lines).toHaveLength(4);
  expect(lines[0]).toMatch(/^CREATED\s+TENANT\s+OPERATION\s+KEY\s+RECORD\s+WAITS FOR\s+WHY$/u);
  expect(lines[1]).toMatch(/account-1 +payments\.charge +a +[0-9a-f-]{36} +a person +call-in-doubt$/u);

  expect(keys(await page())).toEqual(["a", "b", "c"]);
  expect(keys(await page("--tenant", "account-2"))).toEqual(["b"]);
  expect(keys(await page("--operation", "mail.send"))).toEqual(["c"]);
  expect(keys(await page("--state", "in_progress"))).toEqual(["running"]);
  expect(keys(await page("--state", "completed"))).toEqual([]);

  const first = await page("--limit", "2");
  expect(keys(first)).toEqual(["a", "b"]);
  const rest = await page("--limit", "2", "--after", String(first.next));
  expect(rest).toMatchObject({ records: [{ key: "c", lastErrorCode: "handler-threw" }], next: null });
  const shown = await latchkey(place.url, "list", "--limit", "1", "--tenant", "account-1");
  expect(shown.out).toMatch(
    /More: latchkey list --state unknown --tenant account-1 --limit 1 --after \d+_[0-9a-f-]{36}$/u,
  );
});

test.each([
  [["--state", "lost"]],
  [["--state"]],
  [["--limit", "0"]],
  [["--limit", "1001"]],
  [["--limit", "1e2"]],
  [["--after", "yesterday"]],
  [["--after", "1_no-uuid"]],
  [["account-1"]],
])("%j is called wrongly", async (args) => {
  const { exitCode, errors, out } = await latchkey(place.url, "list", ...args);
  expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
  expect(errors).toContain("Usage: latchkey list");
});

test("--audit lists what was decided, newest first, page by page and by tenant", async () => {
  const settle = async (key: string, reason: string) => {
    const { record } = await place.store.read(keyOf(key, { tenant: "account-3", scope: "mail.send" }));
    return latchkey(
      place.url,
      ...["settle", "account-3", "mail.send", key, "--record", record?.id ?? ""],
      ...["--failed", '{"status":402}', "--operator", "ada", "--reason", reason],
    );
  };
  const none = await latchkey(place.url, "list", "--audit", "--tenant", "account-3");
  expect(none).toEqual({ exitCode: 0, out: "The audit log has no rows.", errors: "" });
  for (const key of ["d", "e"]) {
    await bareDoubt(place, keyOf(key, { tenant: "account-3", scope: "mail.send" }));
    expect(await settle(key, `ticket ${key}`)).toMatchObject({ exitCode: 0 });
  }
  const { out } = await latchkey(place.url, "list", "--audit", "--limit", "1", "--tenant", "account-3");
  const lines = out.split("\n");
  expect(lines[0]).toMatch(/^AT +WHO +DID +TENANT +KEY +RECORD +CHANGE +PROOF +REASON$/u);
  expect(lines[1]).toMatch(
    /Z +ada +settle_failed +account-3 +e +[0-9a-f-]{36} +unknown → failed +operator +ticket e$/u,
  );
  expect(lines.at(-1)).toMatch(
    /^More: latchkey list --audit --tenant account-3 --limit 1 --after \d+_[0-9a-f-]{36}$/u,
  );
  const next = /--after (\S+)$/u.exec(out)?.[1] ?? "";
  const rest = await latchkey(
    place.url,
    ...["list", "--audit", "--json", "--tenant", "account-3", "--after", next],
  );
  expect(JSON.parse(rest.out)).toMatchObject({
    entries: [{ tenant: "account-3", scope: "mail.send", key: "d", actor: "ada", reason: "ticket d" }],
    next: null,
  });
});

test.each([["--state", "unknown"], ["--dead"], ["--operation", "mail.send"], ["--after", "yesterday"]])(
  "--audit refuses %s %s",
  async (...args) => {
    expect(await latchkey(place.url, "list", "--audit", ...args)).toMatchObject({ exitCode: 2 });
  },
);
