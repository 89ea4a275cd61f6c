/** The packed client on Bun, Deno and workerd, over a connection that loses the first answer. */
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { Miniflare } from "miniflare";
import { beforeAll, describe, expect, test } from "vitest";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { notRun } from "../support/not-run.ts";
import { onRelease } from "../support/resources.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { installPackedClient } from "./pack-client.ts";
import { openShop } from "./shop.ts";

const bin = (name: string) => join(repositoryRoot, "node_modules", name);
const runtimes = [
  ["Bun", [bin("bun/bin/bun.exe")]],
  ["Deno", [bin("deno/deno"), "run", "--allow-all", "--no-lock", "--node-modules-dir=manual"]],
] as const;

const order = `const order = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: '{"item":"book"}',
    intent: "form-1",
  };`;
const program = `
  import { createClient } from "latchkey-client";
  const client = createClient({ pauseMs: 20 });
  ${order}
  const answers = await Promise.all([1, 2].map(() => client.fetch(process.env.SHOP + "/orders", order)));
  console.log(JSON.stringify([...answers.map(({ status }) => status), await client.pending()]));
`;

let folder = "";
beforeAll(() => {
  folder = installPackedClient();
  writeFileSync(join(folder, "program.mjs"), program);
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
});

async function run([command, ...args]: readonly [string, ...string[]], shop: string): Promise<string> {
  const { NODE_OPTIONS: _, ...env } = process.env;
  const child = spawn(command, [...args, "program.mjs"], {
    cwd: folder,
    env: { ...env, SHOP: shop },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  }
  await new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  return text;
}

describe.each(runtimes)("%s", (name, command) => {
  const runs = existsSync(command[0]);
  if (!runs) notRun(`latchkey-client on ${name}`, "its npm package's install script has not run");

  test.skipIf(!runs)("an answer that is lost is asked for again, and two calls share a flight", () =>
    losesAnAnswer((shop) => run(command, shop)),
  );
});

test("workerd: an answer that is lost is asked for again, and two calls share a flight", async () => {
  const worker = `
    import { createClient } from "latchkey-client";
    export default {
      async fetch(request) {
        const client = createClient({ pauseMs: 20 });
        const shop = new URL(request.url).searchParams.get("shop");
        ${order}
        const answers = await Promise.all([1, 2].map(() => client.fetch(shop + "/orders", order)));
        return Response.json([...answers.map(({ status }) => status), await client.pending()]);
      },
    };
  `;
  const { outputFiles } = await build({
    stdin: { contents: worker, resolveDir: folder },
    bundle: true,
    write: false,
    format: "esm",
    conditions: ["workerd", "worker"],
  });
  const workerd = new Miniflare({
    modules: true,
    script: outputFiles[0]?.text ?? "",
    compatibilityDate: "2026-07-01",
  });
  onRelease(() => workerd.dispose());
  await losesAnAnswer(async (shop) =>
    (await workerd.dispatchFetch(`http://worker/?shop=${encodeURIComponent(shop)}`)).text(),
  );
});

async function losesAnAnswer(order: (shop: string) => Promise<string>): Promise<void> {
  const shop = await openShop("ietf");
  const proxy = await startProxy({ to: { port: shop.port }, protocol: "bytes" });
  const answer = proxy.holdReplyWhen(() => true);
  const output = order(`http://127.0.0.1:${proxy.port}`);
  await answer.held();
  expect(shop.orders()).toEqual(["book"]);
  answer.drop();
  expect(JSON.parse(await output)).toEqual([201, 201, []]);
  expect(shop.orders()).toEqual(["book"]);
  expect([shop.keys.length, new Set(shop.keys).size]).toEqual([2, 1]);
}
