/** The built page. Its files are few and small, so they are read once and cached. */
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Refusal, reply } from "./replies.ts";

/** The same from `src` and from `dist`. */
const folder = fileURLToPath(new URL("../dist/client", import.meta.url));

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".woff2": "font/woff2",
};

export interface Assets {
  /** Null: the file does not exist. */
  file(path: string): Promise<Response | null>;
  /** The page itself, for every address that it handles. */
  page(): Promise<Response>;
}

export function assetsUnder(basePath: string): Assets {
  let read: Promise<ReadonlyMap<string, Uint8Array<ArrayBuffer>>> | null = null;
  const files = () => {
    read ??= readAll().catch((cause) => {
      read = null;
      throw new Refusal(
        500,
        "The console's page is missing.",
        `Build it with \`npm run build:client -w latchkey-console\` (${cause instanceof Error ? cause.message : cause}).`,
      );
    });
    return read;
  };
  return {
    async file(path) {
      const bytes = (await files()).get(path);
      if (bytes === undefined || path === "index.html") return null;
      // Names below assets/ contain a hash of the content.
      const isNamedByContent = path.startsWith("assets/");
      const caching = isNamedByContent ? "public, max-age=31536000, immutable" : "no-cache";
      return reply(200, types[extname(path)] ?? "application/octet-stream", bytes, {
        "Cache-Control": caching,
      });
    },
    async page() {
      const bytes = (await files()).get("index.html");
      const html = new TextDecoder().decode(bytes).replaceAll(/(href|src)="\.\//gu, `$1="${basePath}/`);
      return reply(200, "text/html; charset=utf-8", html.replace('content="/base"', `content="${basePath}"`));
    },
  };
}

async function readAll(): Promise<ReadonlyMap<string, Uint8Array<ArrayBuffer>>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const read = await Promise.all(
    files.map(async ({ parentPath, name }) => {
      const path = join(parentPath, name);
      const short = path.slice(folder.length + 1).replaceAll("\\", "/");
      return [short, new Uint8Array(await readFile(path))] as const;
    }),
  );
  return new Map(read);
}
