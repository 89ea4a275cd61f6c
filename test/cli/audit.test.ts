/** `latchkey audit` on modules and documents, in a process of its own. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeIdempotency } from "../../packages/latchkey/src/http/openapi/openapi.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import { spawnWorker } from "../support/processes.ts";
import { sample } from "../support/thorough.ts";
import { latchkeyUnder } from "./arrange.ts";

const main = new URL("../../packages/latchkey/src/cli/main.ts", import.meta.url);
const fixture = (name: string) => join(import.meta.dirname, "configs", name);

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "latchkey-audit-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function written(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

async function audit(...args: readonly string[]) {
  const child = spawnWorker(main, { args: ["audit", ...args] });
  const { code } = await child.exited;
  const lines = child.lines.map((line) => ("text" in line ? String(line.text) : JSON.stringify(line)));
  return { code, out: lines.join("\n"), errors: child.stderr() };
}

const documented = ["--app", fixture("shop-express.ts")];

describe("an app", () => {
  test("its unprotected routes make exit code 1, and docs/coverage.md shows what is printed", async () => {
    const { code, out, errors } = await audit(...documented);
    expect({ code, errors }).toEqual({ code: 1, errors: "" });
    expect(out).toMatch(/UNPROTECTED +POST +\/login/u);
    const page = readFileSync(new URL("../../docs/coverage.md", import.meta.url), "utf8");
    expect(page).toContain(out);
  });

  test("with exceptions it is complete", async () => {
    const { code, out } = await audit(
      ...documented,
      "--except",
      "POST /login",
      "--except",
      "DELETE *",
      "--json",
    );
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({
      complete: true,
      protected: 2,
      excepted: 2,
      unprotected: 0,
      routes: [
        {
          method: "POST",
          path: "/payments",
          status: "protected",
          operation: "payments.charge",
          opaque: null,
        },
        { method: "POST", path: "/orders", status: "protected", operation: "orders.adopted", opaque: null },
        { method: "DELETE", path: "/orders/:id", status: "excepted", operation: null, opaque: null },
        { method: "POST", path: "/login", status: "excepted", operation: null, opaque: null },
      ],
      unused: [],
    });
  });

  test("an exception that fits none is not let pass", async () => {
    const { code, errors } = await audit(...documented, "--except", "*", "--except", "POST /logout");
    expect(code).toBe(1);
    expect(errors).toContain('The exception "POST /logout" matches no unprotected route.');
  });

  test("a function that makes a Fastify app is called, and the app made ready", async () => {
    const { code, out } = await audit("--app", fixture("shop-fastify.ts"));
    expect(code).toBe(1);
    expect(out).toMatch(/protected +POST +\/payments\/:id +payments\.charge/u);
    expect(out).toMatch(/UNPROTECTED +PUT +\/profile/u);
  });

  const wrong = [
    ["export default 1;", 1, "Not an app of Express"],
    ["export const other = 1;", 1, "Not an app of Express"],
    ["export default () => null;", 1, "Not an app of Express"],
    ["throw new Error('no database');", 1, "no database"],
  ] as const;
  test.each(sample(wrong, 2))(
    "a module %j is refused with what is wrong",
    async (text, exitCode, message) => {
      const { code, errors } = await audit("--app", written("app.mjs", text));
      expect(code).toBe(exitCode);
      expect(errors).toContain(message);
    },
  );
});

describe("an OpenAPI document", () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("payments.charge");
  const responses = { 201: { description: "made" } };
  const bare = {
    openapi: "3.1.0",
    info: { title: "shop", version: "1" },
    paths: {
      "/payments": { get: { responses }, post: { operationId: "charge", responses } },
      "/orders/{orderId}": { parameters: [], delete: { responses } },
      "/refunds": { post: { responses } },
    },
  };
  const description = describeIdempotency(bare, {
    latchkey,
    http: { tenant: () => "t" },
    routes: { "POST /payments": operation },
  });

  test("what is described is protected", async () => {
    const file = written("openapi.json", JSON.stringify(description));
    const { code, out } = await audit("--openapi", file);
    expect(code).toBe(1);
    expect(out).toMatch(/protected +POST +\/payments +payments\.charge/u);
    expect(out).toMatch(/UNPROTECTED +DELETE +\/orders\/\{orderId\}/u);
    expect(out).not.toContain("GET");
  });

  test("with an app, the app decides, and what it does not have is not protected", async () => {
    const file = written("both.json", JSON.stringify(bare));
    const { code, out } = await audit(...documented, "--openapi", file, "--json");
    expect(code).toBe(1);
    const { routes } = JSON.parse(out) as { readonly routes: readonly { readonly path: string }[] };
    expect(routes).toHaveLength(5);
    expect(routes.filter(({ path }) => path === "/payments")).toMatchObject([{ status: "protected" }]);
    expect(routes.at(-1)).toMatchObject({
      method: "POST",
      path: "/refunds",
      status: "unprotected",
      opaque: "documented, but not a route of the app",
    });
  });

  test.each([
    ["{", "cannot be read"],
    ["{}", "Not an OpenAPI 3 document"],
    ['{"swagger":"2.0"}', "Not an OpenAPI 3 document"],
  ])("%j is refused", async (text, message) => {
    const { exitCode, errors } = await latchkeyUnder({}, "audit", "--openapi", written("bad.json", text));
    expect(exitCode).toBe(1);
    expect(errors).toContain(message);
  });

  test("one without state-changing operations is no success", async () => {
    const file = written("empty.json", JSON.stringify({ ...bare, paths: {} }));
    const { exitCode, errors } = await latchkeyUnder({}, "audit", "--openapi", file);
    expect({ exitCode, errors }).toEqual({
      exitCode: 1,
      errors: "There are no state-changing routes. Is this the whole app?",
    });
  });
});

test.each([
  [[], "--app, --openapi, or both"],
  [["--app", "no-such.ts"], "There is no file"],
  [["--openapi", "x.json", "extra"], "extra"],
])("%j is called wrongly", async (args, message) => {
  const { exitCode, errors } = await latchkeyUnder({}, "audit", ...args);
  expect(exitCode).toBe(2);
  expect(errors).toContain(message);
});
