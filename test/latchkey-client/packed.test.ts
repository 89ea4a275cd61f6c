/** The client as its users get it: small enough for a page, and used from the packed package. */
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { beforeAll, expect, test } from "vitest";
import { installPackedClient } from "./pack-client.ts";
import { openShop } from "./shop.ts";

/** What docs/client.md promises. */
const limitBytes = 5_000;
let folder = "";
beforeAll(() => {
  folder = installPackedClient();
});

async function bundled(text: string) {
  const { outputFiles } = await build({
    stdin: { contents: text, resolveDir: folder },
    bundle: true,
    minify: true,
    splitting: true,
    format: "esm",
    target: "es2022",
    outdir: folder,
    entryNames: "entry",
    // Without a hash, which depends on the folder and compresses a few bytes better or worse.
    chunkNames: "[name]",
    write: false,
  });
  return outputFiles;
}

test(`all of the main entry is at most ${limitBytes} bytes, minified and compressed`, async () => {
  const files = await bundled('export * from "latchkey-client";');
  const isEntry = ({ path }: { readonly path: string }) => path.endsWith("entry.js");
  // The lease is a file of its own, which only a platform without Web Locks loads; nothing else is left out.
  expect(files.filter((file) => !isEntry(file)).map(({ path }) => basename(path))).toEqual(["lease.js"]);
  const entry = files.find(isEntry);
  expect(entry?.text).toContain("createClient");
  expect(gzipSync(entry?.contents ?? "", { level: 9 }).length).toBeLessThanOrEqual(limitBytes);
});

test("it has no dependencies, and no import leads out of it", async () => {
  const { metafile } = await build({
    stdin: {
      contents: 'export * from "latchkey-client"; export * from "latchkey-client/web-storage";',
      resolveDir: folder,
    },
    bundle: true,
    format: "esm",
    platform: "neutral",
    write: false,
    metafile: true,
  });
  const inputs = Object.keys(metafile.inputs).filter((path) => path !== "<stdin>");
  expect(inputs.length).toBeGreaterThan(10);
  expect(inputs.filter((path) => !path.includes("node_modules/latchkey-client/dist/"))).toEqual([]);
});

test("a program that has only the package sends an order once", async () => {
  const shop = await openShop("ietf");
  const program = `
    import { createClient } from "latchkey-client";
    const client = createClient();
    const order = { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"item":"book"}', intent: "form-1" };
    const answers = await Promise.all([1, 2].map(() => client.fetch("${shop.url}/orders", order)));
    const again = await client.fetch("${shop.url}/orders", order);
    console.log(JSON.stringify([...answers, again].map(({ status }) => status)));
  `;
  writeFileSync(join(folder, "program.mjs"), program);
  const { NODE_OPTIONS: _, ...env } = process.env;
  // Not `spawnSync`: the shop is in this process.
  const output = await new Promise<string>((resolve, reject) => {
    const child = spawn(process.execPath, ["program.mjs"], {
      cwd: folder,
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    child.on("error", reject).on("close", () => resolve(text));
  });
  expect(JSON.parse(output)).toEqual([201, 201, 201]);
  expect(shop.orders()).toEqual(["book"]);
  expect(new Set(shop.keys).size).toBe(1);
});
