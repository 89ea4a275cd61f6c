import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { XMLParser, XMLValidator } from "fast-xml-parser";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Ran, runCommand } from "./arrange.ts";
import { rightBehaviour, serve, type TestServer } from "./server.ts";

/** What a server may answer to steer a terminal, a browser or a parser. */
const hostile = '</script><img src=x onerror="alert(1)">&\u001b[2J]]>\u202e\u0000';

let server: TestServer;
let folder: string;
let ran: Ran;
const file = (name: string) => readFileSync(join(folder, name), "utf8");

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "latchkey-probe-"));
  const right = rightBehaviour();
  server = await serve({
    ...right,
    replay: (kept) => ({ ...kept, body: JSON.stringify({ hostile }) }),
    refuseKey: () => ({ status: 403, headers: { "content-type": "text/html" }, body: hostile }),
  });
  const reports = ["--json", "a.json", "--junit", "a.xml", "--html", "a.html"];
  const secret = ["--header", "Authorization: Bearer s3cret", "--ignore", "missing-key-status"];
  ran = await runCommand([`${server.url}/orders`, "--body", '{"amount":1}', ...secret, ...reports], folder);
});

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

test("the text report lists the faults, what was ignored or skipped, and the requests", () => {
  expect(ran.code).toBe(1);
  expect(ran.out).toContain("FAULT    same-key");
  expect(ran.out).toContain("replay-body (answer): A replay has another body");
  expect(ran.out).toContain("ignored missing-key-status");
  expect(ran.out).toMatch(/skipped +tenants: no second caller is known/u);
  expect(ran.out).toMatch(/POST, key [0-9a-f-]{36} -> 201 \{"id":/u);
  expect(ran.out).toMatch(/^2 faults in 2 checks, \d+ passed/mu);
});

test("before anything is sent, one line states how many requests will be sent, and where to", () => {
  expect(ran.err).toMatch(
    /^Sends at most \d+ requests \(at most 20 per second\) to POST http:\/\/127\.0\.0\.1/u,
  );
});

describe("hostile text from the server", () => {
  test("cannot control a terminal, and no report contains credentials or control characters", () => {
    for (const text of [ran.out, ran.err, file("a.json"), file("a.xml"), file("a.html")]) {
      expect(text).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u);
      expect(text).not.toContain("s3cret");
    }
    expect(JSON.parse(file("a.json")).targets[0].checks[0].exchanges[1].body).toBe(
      JSON.stringify({ hostile }),
    );
  });

  test("is plain text in the HTML report, which loads nothing", () => {
    const page = file("a.html");
    expect(page).toContain("&lt;/script&gt;&lt;img src=x onerror=");
    expect(page).not.toMatch(/<(script|img|link|iframe|object|embed)\b/iu);
    expect(page).not.toMatch(/\b(src|href)=["'](?!#)/iu);
    expect(page).toContain("default-src 'none'");
    expect(page).toContain("<strong>A replay has another body</strong>");
  });

  test("is plain text in the JUnit report, which is well-formed and whose counts are right", () => {
    const xml = file("a.xml");
    expect(XMLValidator.validate(xml)).toBe(true);
    const { testsuites } = new XMLParser({
      ignoreAttributes: false,
      isArray: (name) => name === "testcase",
    }).parse(xml);
    const cases: readonly Record<string, Record<string, string>>[] = testsuites.testsuite.testcase;
    const count = (what: string) => cases.filter((each) => what in each).length;
    expect(String(count("failure"))).toBe(testsuites["@_failures"]);
    expect(String(count("skipped"))).toBe(testsuites["@_skipped"]);
    expect(String(cases.length)).toBe(testsuites["@_tests"]);
    expect(cases.find((each) => String(each["@_name"]) === "same-key")?.failure?.["@_type"]).toBe(
      "replay-body",
    );
  });
});
