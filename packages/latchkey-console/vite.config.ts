/** Builds the page into `dist/client`. `base` is relative, so that the page works under any path. */
import { join } from "node:path";
import { defineConfig } from "vite";

export default defineConfig({
  root: join(import.meta.dirname, "client"),
  publicDir: join(import.meta.dirname, "public"),
  base: "./",
  resolve: { conditions: ["latchkey-source", "module", "browser", "production"] },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: join(import.meta.dirname, "dist/client"),
    emptyOutDir: true,
    target: "es2022",
    // Inlined files would require `data:` in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: false,
  },
});
