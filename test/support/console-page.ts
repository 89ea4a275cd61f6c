/** The console's page, built once for all tests: `dist/client` is what the handler serves. */
import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { build } from "vite";

const folder = join(import.meta.dirname, "../../packages/latchkey-console");
const built = join(folder, "dist/client");

/** Builds it if it is missing or older than a source. Concurrent builds are harmless: all write the same. */
export async function buildConsolePage(): Promise<void> {
  if (
    existsSync(join(built, "index.html")) &&
    (await newestSource()) <= statSync(join(built, "index.html")).mtimeMs
  ) {
    return;
  }
  const draft = join(folder, "dist", `client.${process.pid}.draft`);
  await build({
    configFile: join(folder, "vite.config.ts"),
    logLevel: "error",
    build: { outDir: draft },
  });
  const before = `${draft}.before`;
  mkdirSync(join(folder, "dist"), { recursive: true });
  if (existsSync(built)) renameSync(built, before);
  renameSync(draft, built);
  rmSync(before, { recursive: true, force: true });
}

async function newestSource(): Promise<number> {
  const folders = ["client", "public", "src"].map((name) => join(folder, name));
  const files = (
    await Promise.all(folders.map((one) => readdir(one, { recursive: true, withFileTypes: true })))
  ).flat();
  return Math.max(...files.map(({ parentPath, name }) => statSync(join(parentPath, name)).mtimeMs));
}
