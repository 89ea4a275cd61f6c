/** The example of Nest, compiled and run as its users do: one order for two requests, and an end in order. */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { OpenAPIObject } from "../nest/nest-versions.ts";
import { spawnWorker } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

const folder = fileURLToPath(new URL("../../examples/nest", import.meta.url));
const built = `${folder}/dist-${process.pid}`;
const compiler = "../../node_modules/typescript/bin/tsc";

beforeAll(() => {
  const { status, stdout } = spawnSync(
    process.execPath,
    [compiler, "-p", "tsconfig.json", "--outDir", built],
    {
      cwd: folder,
      encoding: "utf8",
    },
  );
  expect(stdout).toBe("");
  expect(status).toBe(0);
});
afterAll(() => rmSync(built, { recursive: true, force: true }));

test("one order for two requests, health, documents, and SIGTERM", async () => {
  const database = await freshDatabase();
  const example = spawnWorker(`${built}/main.js`, { env: { PORT: "0", DATABASE_URL: database.url } });
  const { text } = await example.line((line) => String(line.text).startsWith("on http"), 60_000);
  const url = /on (http:\S+),/u.exec(String(text))?.[1] ?? "";
  const order = () =>
    fetch(`${url}/orders`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": "order-1" },
      body: '{"item":"book"}',
    });
  const answers = [await order(), await order()];
  expect(answers.map(({ status, headers }) => [status, headers.get("idempotent-replayed")])).toEqual([
    [201, null],
    [201, "true"],
  ]);
  expect(await (await fetch(`${url}/orders`)).json()).toEqual([{ id: 1, item: "book" }]);
  expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ status: "ok" });
  const document = (await (await fetch(`${url}/docs-json`)).json()) as OpenAPIObject;
  expect(Object.keys(document.paths["/orders"]?.post?.responses ?? {})).toEqual([
    "201",
    "400",
    "409",
    "413",
    "422",
    "503",
  ]);
  expect(await example.kill("SIGTERM"), example.stderr()).toEqual({ code: null, signal: "SIGTERM" });
  await database.drop();
});

test("its start script compiles and runs what is tested here", () => {
  const { scripts } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  expect(scripts.start).toBe("tsc -p tsconfig.json && node --conditions=latchkey-source dist/main.js");
});
