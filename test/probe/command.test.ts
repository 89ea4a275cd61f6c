import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { type Listening, listen } from "../support/listen.ts";
import { runCommand } from "./arrange.ts";
import { type Behaviour, rightBehaviour, serve } from "./server.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function started(behaviour: Partial<Behaviour> = {}) {
  const server = await serve({ ...rightBehaviour(), ...behaviour });
  ends.push(server.close);
  return server;
}

async function answering(listener: RequestListener): Promise<Listening> {
  const server = await listen(listener);
  ends.push(server.close);
  return server;
}

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-probe-"));
  ends.push(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const body = ["--body", '{"amount":1}'];

describe("requests go only to the given address", () => {
  test("redirects are not followed, and do not count as success", async () => {
    const elsewhere = await started();
    const { url } = await answering((_req, res) => {
      res.writeHead(307, { location: `${elsewhere.url}/orders` }).end();
    });
    const ran = await runCommand([`${url}/orders`, ...body]);
    expect(ran.code).toBe(3);
    expect(ran.out).toContain("redirects are not followed, so use that address");
    expect(elsewhere.requests()).toBe(0);
  });

  test("an OpenAPI document's servers are not used", async () => {
    const [named, elsewhere] = [await started(), await started()];
    const media = { content: { "application/json": { example: { amount: 1 } } } };
    const operation = { requestBody: media, servers: [{ url: elsewhere.url }] };
    const paths = { "/orders": { post: operation, servers: [{ url: elsewhere.url }] } };
    const document = { openapi: "3.1.0", servers: [{ url: elsewhere.url }], paths };
    const cwd = folderWith({ "api.json": JSON.stringify(document) });
    const ran = await runCommand([named.url, "--openapi", "api.json"], cwd);
    expect(ran.out).toContain("POST /orders");
    expect(ran.code).toBe(0);
    expect(named.requests()).toBeGreaterThan(20);
    expect(elsewhere.requests()).toBe(0);
  });

  test("a dry run sends nothing, and reports what would be sent", async () => {
    const server = await started();
    const ran = await runCommand([`${server.url}/orders`, ...body, "--dry-run"]);
    expect(ran.code).toBe(0);
    expect(ran.out).toContain(`to POST ${server.url}/orders, and nothing to any other address.`);
    expect(ran.out).toContain('body: {"amount":1}');
    expect(ran.out).toContain("tenants             -  skipped: no second caller is known");
    expect(ran.out).toContain("Nothing was sent.");
    expect(server.requests()).toBe(0);
  });
});

describe("limits", () => {
  test("a run that might need more requests than allowed sends nothing", async () => {
    const server = await started();
    const ran = await runCommand([`${server.url}/orders`, ...body, "--max-requests", "100"]);
    expect(ran.code).toBe(2);
    expect(ran.err).toMatch(/This may send \d+ requests, and --max-requests is 100/u);
    expect(server.requests()).toBe(0);
  });

  test("no more requests are sent than announced, even if every key stays blocked", async () => {
    const right = rightBehaviour();
    const server = await started({
      keep: (reply, request) => (request.isGone() ? "running" : right.keep(reply, request, 0)),
    });
    const ran = await runCommand([`${server.url}/orders`, ...body]);
    const announced = Number(/at most (\d+) requests/u.exec(ran.err)?.[1]);
    expect(ran.out).toContain("cut-stuck");
    expect(server.requests()).toBeLessThanOrEqual(announced);
  });
});

describe("exit codes", () => {
  test("3 if the server does not listen; no check is reported as passed", async () => {
    const { url, close } = await listen(() => {});
    await close();
    const ran = await runCommand([`${url}/orders`, ...body]);
    expect(ran.code).toBe(3);
    expect(ran.out).toContain("not judged: no answer: connect ECONNREFUSED");
  });

  test("3 if the plain request is refused, with the server's answer", async () => {
    const { url } = await answering((_req, res) => res.writeHead(401).end("who are you?"));
    const ran = await runCommand([`${url}/orders`, ...body]);
    expect(ran.code).toBe(3);
    expect(ran.out).toContain("the request is not accepted under a new key: 401: who are you?");
  });

  test("3 if the server goes away, with what was found until then", async () => {
    let left = 20;
    const server = createServer((_req, res) => {
      res.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ id: randomUUID() }));
      left -= 1;
      if (left === 0) server.close();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    ends.push(() => server.close());
    const address = server.address();
    const port = typeof address === "object" ? address?.port : 0;
    const args = ["--ignore", "ran-twice", "--skip-check", "missing-key", "--skip-check", "malformed-key"];
    left = 5;
    const ran = await runCommand([`http://127.0.0.1:${port}/orders`, ...body, ...args]);
    expect(ran.code).toBe(3);
    expect(ran.out).toContain("not judged: no answer");
  });

  test("0 if all faults are ignored; the report still lists them", async () => {
    const { url } = await started({ replay: (kept) => ({ ...kept, body: "" }) });
    const ran = await runCommand([`${url}/orders`, ...body, "--ignore", "replay-body"]);
    expect(ran.code).toBe(0);
    expect(ran.out).toContain("ignored replay-body: the body is gone");
  });

  test.each([
    [[], "Usage"],
    [["--nonsense"], "Unknown option"],
    [[...body], "Give the URL"],
    [["ftp://127.0.0.1/"], "not a URL that starts with http"],
    [["http://a:b@127.0.0.1/"], "Do not put credentials into the URL"],
    [["http://127.0.0.1/", "--method", "GET"], "--method must be"],
    [["http://127.0.0.1/", "--profile", "iso"], "--profile must be one of ietf, stripe, acp, ucp"],
    [["http://127.0.0.1/", "--expect", "misuse=many"], "--expect must be like misuse=409"],
    [["http://127.0.0.1/", "--ignore", "nothing"], 'there is no fault "nothing"'],
    [["http://127.0.0.1/", "--check", "nothing"], "--check must be one of same-key"],
    [["http://127.0.0.1/", "--concurrency", "1000"], "--concurrency must be a whole number from 2 to 50"],
    [["http://127.0.0.1/", "--header", "nonsense"], '--header must be "Name: value"'],
    [["http://127.0.0.1/", "--header", "X: a\nY: b"], "X has a value that a header cannot have"],
    [["http://127.0.0.1/", "--body-file", "none.json"], "none.json cannot be read"],
    [["http://127.0.0.1/", "--html", "none/a.html"], "cannot be written"],
    [["http://127.0.0.1/", "--route", "POST /a"], "--route and --param need --openapi"],
    [["http://127.0.0.1/", "--openapi", "none.yaml"], "none.yaml cannot be read"],
    [
      ["http://127.0.0.1/", "http://127.0.0.1/a", "--openapi", "none.yaml"],
      "--openapi needs exactly one URL",
    ],
    [["http://127.0.0.1/", "--openapi", "a.yaml", "--body", "{}"], "--body applies to a URL"],
  ])("2 for %j", async (args, message) => {
    const ran = await runCommand(args);
    expect(ran.code).toBe(2);
    expect(`${ran.out}${ran.err}`).toContain(message);
  });
});

describe("the operator's input", () => {
  test("headers may come from a file; the second caller's headers replace those of the same name", async () => {
    const seen = new Set<string>();
    const { url } = await answering((req, res) => {
      seen.add(`${req.headers.authorization} ${req.headers["x-app"]}`);
      res.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ id: randomUUID() }));
    });
    const cwd = folderWith({ one: "authorization: one\n\nX-App: probe\n", two: "Authorization: two" });
    const args = ["--header", "@one", "--other-header", "@two", "--check", "tenants"];
    await runCommand([`${url}/orders`, ...body, ...args], cwd);
    expect([...seen].sort()).toEqual(["one probe", "two probe"]);
  });

  test("placeholders in the body are new for each intention and the same in its retries", async () => {
    const keysByBody = new Map<string, Set<string>>();
    const right = rightBehaviour();
    const { url } = await started({
      fingerprint(request) {
        keysByBody.set(request.body, (keysByBody.get(request.body) ?? new Set()).add(request.key));
        return right.fingerprint(request);
      },
    });
    const unique = ["--body", '{"email":"{{uuid}}@example.com","number":{{n}}}'];
    const ran = await runCommand([`${url}/orders`, ...unique, "--check", "same-key", "--check", "cut"]);
    expect(ran.code).toBe(0);
    expect(keysByBody.size).toBeGreaterThan(5);
    expect([...keysByBody.values()].map(({ size }) => size)).toEqual(Array.from(keysByBody, () => 1));
  });

  test("a request that is accepted only once is explained", async () => {
    let accepted = false;
    const { url } = await answering((_req, res) => {
      res.writeHead(accepted ? 409 : 201).end();
      accepted = true;
    });
    const ran = await runCommand([`${url}/orders`, ...body]);
    expect(ran.code).toBe(3);
    expect(ran.out).toContain("put {{uuid}} or {{n}} into the body");
  });

  test("if all executions answer alike, what cannot be observed is unclear, and a count of executions makes it clear", async () => {
    let effects = 0;
    const { url } = await answering((req, res) => {
      if (req.method === "GET") return res.end(String(effects));
      req.resume().once("end", () => {
        effects += 1;
        res.writeHead(201, { "content-type": "application/json" }).end('{"ok":true}');
      });
      return undefined;
    });
    const args = [`${url}/orders`, ...body, "--check", "same-key", "--check", "race"];
    const unclear = await runCommand(args);
    expect(unclear.code).toBe(0);
    expect(unclear.out).toContain("executions cannot be distinguished by their answers");
    expect(unclear.out).toMatch(/unclear +same-key: two executions answer alike/u);
    const counted = await runCommand([...args, "--count", `${url}/effects`]);
    expect(counted.code).toBe(1);
    expect(counted.out).toContain(
      "ran-twice (effect): The same key ran again: one key had 4 effects, according to the count",
    );
    const wrong = await runCommand([...args, "--count", `${url}/effects`, "--count-pointer", "/total"]);
    expect(wrong.code).toBe(0);
    expect(wrong.out).toContain(
      "unclear  same-key: the count is answered with 200, without a number or a list at /total",
    );
  });
});
