import { relative } from "node:path";
import type { MarkdownOptions } from "vitepress";
import { anchorOf } from "../../scripts/support/markdown.ts";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { siteLink } from "./pages.ts";

type MarkdownIt = Parameters<NonNullable<MarkdownOptions["config"]>>[0];
type Token = ReturnType<MarkdownIt["parse"]>[number];

/** What VitePress says about the page that is rendered: absolute paths; `realPath` is missing in the search index. */
interface Environment {
  readonly path: string;
  readonly realPath?: string;
}

/** Documents as GitHub shows them: its anchors, its links between files, its diagrams, and no syntax beyond. */
export const markdown: MarkdownOptions = {
  anchor: { slugify: anchorOf },
  attrs: false,
  emoji: false,
  config(md) {
    leadLinks(md);
    drawDiagrams(md);
    nameFiles(md);
  },
};

/** Leads links to the pages' places in the site. Of a link to what the site does not have, the text remains. */
function leadLinks(md: MarkdownIt): void {
  md.core.ruler.after("inline", "latchkey_links", ({ tokens, env }) => {
    const { path, realPath = path } = env as Environment;
    const document = relative(repositoryRoot, realPath).replaceAll("\\", "/");
    for (const { children } of tokens) leadLinksOf(children ?? [], document);
  });
}

function leadLinksOf(tokens: readonly Token[], document: string): void {
  let leads = true;
  for (const token of tokens) {
    if (token.type === "link_open") {
      const link = siteLink(document, token.attrGet("href") ?? "");
      leads = link !== null;
      token.attrSet("href", link ?? "");
    }
    // An empty text: VitePress renders a hidden link all the same, and looks for its page.
    if (!leads && /^link_/.test(token.type)) token.type = "text";
  }
}

function drawDiagrams(md: MarkdownIt): void {
  const fence = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info = "", content = "" } = tokens[index] ?? {};
    if (info.trim() !== "mermaid") return fence?.(tokens, index, ...rest) ?? "";
    return `<MermaidDiagram source="${md.utils.escapeHtml(content)}" />`;
  };
}

/** Shows the name that `<!-- file: app.ts -->` gives to the block after it. */
function nameFiles(md: MarkdownIt): void {
  md.core.ruler.push("latchkey_file_names", ({ tokens }) => {
    for (const token of tokens) {
      const [, name] =
        /^<!-- file: ((?:\w[\w.-]*\/)*[\w.-]+) -->$/.exec(
          token.type === "html_block" ? token.content.trim() : "",
        ) ?? [];
      token.content = name === undefined ? token.content : `<p class="file-name"><code>${name}</code></p>`;
    }
  });
}
