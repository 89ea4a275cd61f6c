import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { markdown } from "./markdown.ts";
import { readSidebar } from "./navigation.ts";
import { listExcluded, placeOf } from "./pages.ts";

const { description } = JSON.parse(
  readFileSync(join(repositoryRoot, "packages/latchkey/package.json"), "utf8"),
) as { readonly description: string };
const logo = readFileSync(join(import.meta.dirname, "../public/logo.svg"), "utf8");

export default defineConfig({
  title: "Latchkey",
  description,
  lang: "en",
  // Relative, so that the built folder can be served below any path.
  base: "./",
  srcDir: repositoryRoot,
  srcExclude: [...listExcluded()],
  rewrites: placeOf,
  markdown,
  // Whole, not an address: browsers ask again for a relative one at each page that readers go to.
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(logo)}` }]],
  vite: {
    publicDir: join(import.meta.dirname, "../public"),
    optimizeDeps: { include: ["mermaid"] },
    build: { chunkSizeWarningLimit: 1_500 },
  },
  themeConfig: {
    logo: "/logo.svg",
    nav: [
      { text: "Getting started", link: "/getting-started" },
      { text: "All documents", link: "/documents" },
      { text: "Changelog", link: "/changelog" },
    ],
    sidebar: readSidebar(readFileSync(join(repositoryRoot, "docs/README.md"), "utf8")),
    outline: { level: [2, 3], label: "On this page" },
    search: { provider: "local" },
  },
  transformPageData: ({ relativePath }) => (relativePath === "index.md" ? { frontmatter: home } : undefined),
});

/** The head of the first page; README.md follows below it. */
const home = {
  layout: "home",
  hero: {
    name: "Latchkey",
    text: "Retries that take effect once",
    tagline:
      "The idempotency layer for TypeScript services: an HTTP request, a broker message or an outbound call that arrives twice takes effect once, and the second caller gets the first answer, byte for byte.",
    image: { src: "/once.svg", alt: "The same request sent twice; one row written" },
    actions: [
      { theme: "brand", text: "Getting started", link: "/getting-started" },
      { theme: "alt", text: "All documents", link: "/documents" },
    ],
  },
};
