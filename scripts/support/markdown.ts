/** A TypeScript block of a document, ready to be type-checked as one module. */
export interface Snippet {
  /** Path of the document, relative to the repository's root. */
  readonly document: string;
  /** Line of the opening fence, from 1. */
  readonly line: number;
  /** Its name, by which other snippets of the document import it. Undefined: none does. */
  readonly file?: string | undefined;
  /** The module's lines, each at the index it has in the document, so that errors name the document's lines. */
  readonly lines: readonly string[];
}

/** A fenced block of any language. */
export interface CodeBlock {
  readonly language: string;
  /** Line of the opening fence, from 1. */
  readonly line: number;
  readonly text: string;
  /** What `<!-- file: … -->` right before it says. */
  readonly file: string | undefined;
}

export interface Link {
  readonly target: string;
  readonly line: number;
}

export interface MarkdownDocument {
  readonly path: string;
  readonly snippets: readonly Snippet[];
  readonly links: readonly Link[];
  /** The anchors its headings have on GitHub. */
  readonly anchors: ReadonlySet<string>;
  readonly problems: readonly { readonly line: number; readonly message: string }[];
}

/** Every fenced block of a document, in order. */
export function readCodeBlocks(text: string): readonly CodeBlock[] {
  const lines = text.split("\n");
  return findBlocks(lines).map(({ language, start, end, indent }) => ({
    language,
    line: start + 1,
    text: lines
      .slice(start + 1, end - 1)
      .map((line) => line.slice(indent))
      .join("\n"),
    file: fileNameIn(commentBefore(lines, start)),
  }));
}

function newSnippet(document: string, block: Block, comment: { text: string } | undefined): Snippet {
  return { document, line: block.start + 1, file: fileNameIn(comment), lines: [] };
}

function fileNameIn(comment: { text: string } | undefined): string | undefined {
  return /^\s*file:\s*((?:\w[\w.-]*\/)*[\w.-]+)\s*$/.exec(comment?.text ?? "")?.[1];
}

interface Block {
  readonly language: string;
  readonly flags: string;
  /** Index of the opening fence and of the line after the closing one. */
  readonly start: number;
  readonly end: number;
  readonly indent: number;
}

/**
 * Reads one document. Blocks fenced with `ts` become snippets:
 * - an HTML comment `<!-- setup … -->` right before the block is code in front of it that readers do not see;
 * - a comment `<!-- file: app.ts -->` right before the block names it, for other blocks to import as `./app.ts`; a block
 *   that takes the name once more begins the next version of those files;
 * - the flag `continue` appends the block to the snippet before it;
 * - the flag `no-check` leaves it out, and needs a comment `<!-- no-check: reason -->` right before it.
 */
export function readMarkdown(path: string, text: string): MarkdownDocument {
  const lines = text.split("\n");
  const blocks = findBlocks(lines);
  const snippets: Snippet[] = [];
  const problems: { line: number; message: string }[] = [];
  for (const block of blocks.filter(({ language }) => language === "ts" || language === "typescript")) {
    const comment = commentBefore(lines, block.start);
    const problem = blockProblem(block, comment, snippets.length);
    if (problem) problems.push({ line: block.start + 1, message: problem });
    else if (block.flags === "continue") snippets.push(merge(snippets.pop(), lines, block, comment));
    else if (block.flags === "")
      snippets.push(merge(newSnippet(path, block, comment), lines, block, comment));
  }
  const prose = blankBlocks(lines, blocks);
  return { path, snippets, links: findLinks(prose), anchors: findAnchors(prose), problems };
}

function findBlocks(lines: readonly string[]): readonly Block[] {
  const blocks: Block[] = [];
  for (let index = 0; index < lines.length; index++) {
    const [, indent = "", fence, language = "", flags = ""] =
      /^(\s*)(`{3,}|~{3,})\s*([^\s`]*)\s*([^`]*)$/.exec(lines[index] ?? "") ?? [];
    if (!fence) continue;
    const closing = lines.findIndex((line, at) => at > index && line.trim().startsWith(fence));
    const end = closing < 0 ? lines.length : closing + 1;
    blocks.push({ language, flags: flags.trim(), start: index, end, indent: indent.length });
    index = end - 1;
  }
  return blocks;
}

/** The HTML comment that ends right above `start`: its text, and the index of its first line. */
function commentBefore(lines: readonly string[], start: number): { text: string; first: number } | undefined {
  let last = start - 1;
  while (last >= 0 && lines[last]?.trim() === "") last--;
  if (!lines[last]?.trimEnd().endsWith("-->")) return undefined;
  let first = last;
  while (first >= 0 && !lines[first]?.includes("<!--")) first--;
  const text = lines.slice(first, last + 1).join("\n");
  return { text: text.slice(text.indexOf("<!--") + 4, text.lastIndexOf("-->")), first };
}

function blockProblem(
  block: Block,
  comment: { text: string } | undefined,
  before: number,
): string | undefined {
  if (block.flags === "no-check") {
    const hasReason = /^\s*no-check:\s*\S/.test(comment?.text ?? "");
    return hasReason
      ? undefined
      : "a `no-check` block needs a comment `<!-- no-check: reason -->` right before it";
  }
  if (block.flags === "continue") return before > 0 ? undefined : "`continue` has no block before it";
  return block.flags === ""
    ? undefined
    : `\`${block.flags}\` is not a flag of a ts block (continue, no-check)`;
}

function merge(
  into: Snippet | undefined,
  source: readonly string[],
  block: Block,
  comment: { text: string; first: number } | undefined,
): Snippet {
  const lines = [...(into?.lines ?? [])];
  const put = (index: number, line: string) => {
    while (lines.length < index) lines.push("");
    lines[index] = line;
  };
  if (comment && /^\s*setup\b/.test(comment.text)) {
    for (const [offset, line] of comment.text.split("\n").slice(1).entries())
      put(comment.first + 1 + offset, line);
  }
  for (let index = block.start + 1; index < block.end - 1; index++)
    put(index, (source[index] ?? "").slice(block.indent));
  return { document: into?.document ?? "", line: into?.line ?? 0, file: into?.file, lines };
}

function blankBlocks(lines: readonly string[], blocks: readonly Block[]): readonly string[] {
  return lines.map((line, index) =>
    blocks.some(({ start, end }) => index >= start && index < end) ? "" : line,
  );
}

function findLinks(prose: readonly string[]): readonly Link[] {
  return prose.flatMap((line, index) => {
    const text = line.replaceAll(/`[^`]*`/g, "");
    const inline = [...text.matchAll(/\]\(([^()\s]+)(?:\s+"[^"]*")?\)/g)];
    const reference = [...text.matchAll(/^\[[^\]]+\]:\s*(\S+)/g)];
    return [...inline, ...reference].map(([, target = ""]) => ({ target, line: index + 1 }));
  });
}

/** The anchor of a heading's text, as GitHub makes it; a second one like it gets `-1` at the end. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}

function findAnchors(prose: readonly string[]): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const line of prose) {
    const [, heading] = /^#{1,6}\s+(.*?)\s*#*$/.exec(line) ?? [];
    if (heading === undefined) continue;
    const slug = anchorOf(heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"));
    let anchor = slug;
    for (let copy = 1; anchors.has(anchor); copy++) anchor = `${slug}-${copy}`;
    anchors.add(anchor);
  }
  return anchors;
}
