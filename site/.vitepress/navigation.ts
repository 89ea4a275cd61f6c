import type { DefaultTheme } from "vitepress";
import { placeOf } from "./pages.ts";

/** The sidebar: a group for each heading of docs/README.md, an entry for each link below it, in their order. */
export function readSidebar(index: string): DefaultTheme.SidebarItem[] {
  const seen = new Set<string>();
  return index
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [text = ""] = section.split("\n", 1);
      const links = [...section.matchAll(/\[([^\]]+)\]\(([^)#]+\.md)\)/g)];
      const items = links.flatMap(([, name = "", target = ""]) => {
        const link = linkOf(target);
        if (seen.has(link)) return [];
        seen.add(link);
        return [{ text: name, link }];
      });
      return { text, items, collapsed: false };
    });
}

function linkOf(target: string): string {
  const path = target.startsWith("../") ? target.slice("../".length) : `docs/${target}`;
  return `/${placeOf(path)
    .replace(/(^|\/)index\.md$/, "$1")
    .replace(/\.md$/, "")}`;
}
