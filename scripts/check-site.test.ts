import { expect, test } from "vitest";
import { readSidebar } from "../site/.vitepress/navigation.ts";
import { listExcluded, listPages, placeOf, siteLink } from "../site/.vitepress/pages.ts";
import { findSiteProblems } from "./check-site.ts";

const pages = new Map([
  ["index.html", '<link href="./style.css"><a href="./adapters/koa.html#the-body">Koa</a>'],
  [
    "adapters/koa.html",
    '<h2 id="the-body">The body</h2><img src="../logo.svg"><a href="https://koajs.com">Koa</a>',
  ],
]);
const exists = (path: string) => ["style.css", "logo.svg"].includes(path);

test("pages whose links resolve, and that load nothing from other hosts, have no problem", () => {
  expect(findSiteProblems(pages, exists)).toEqual([]);
});

test.each([
  ["a page", '<a href="./koa.html">', "links to ./koa.html, which does not exist"],
  [
    "a heading",
    '<a href="./adapters/koa.html#body">',
    "links to ./adapters/koa.html#body, which has no such heading",
  ],
  ["a heading of its own", '<a href="#body">', "links to #body, which has no such heading"],
  ["a file", '<script src="./app.js">', "links to ./app.js, which does not exist"],
  ["what is elsewhere", '<script src="https://cdn.example/a.js">', "loads https://cdn.example/a.js"],
])("a link to %s that is not there is found", (_, html, message) => {
  expect(findSiteProblems(new Map([...pages, ["index.html", html]]), exists)).toEqual([
    { where: "index.html", message },
  ]);
});

test("documents have a place on the site; other files have none", () => {
  expect(listPages()).toContain("docs/adapters/koa.md");
  expect(listPages()).not.toContain("docs/decisions/template.md");
  expect(listExcluded()).toContain("packages/**");
  expect(["README.md", "docs/README.md", "docs/adapters/README.md", "CONTRIBUTING.md"].map(placeOf)).toEqual([
    "index.md",
    "documents.md",
    "adapters/index.md",
    "contributing.md",
  ]);
});

test("links are rewritten to pages of the site; a link to another file of the repository is removed", () => {
  expect(siteLink("docs/adapters/koa.md", "../http.md#the-body")).toBe("/http.md#the-body");
  expect(siteLink("README.md", "docs/http.md")).toBe("/http.md");
  expect(siteLink("README.md", "https://example.com/a.md")).toBe("https://example.com/a.md");
  expect(siteLink("docs/messages.md", "../examples/events/main.ts")).toBeNull();
  expect(() => siteLink("README.md", "docs/htp.md")).toThrow("docs/htp.md");
});

test("the sidebar has each page once, below the first heading that names it", () => {
  const index =
    "# Documents\n\n## One\n\n| [Koa](adapters/koa.md), [All](adapters/README.md) |\n\n## Two\n\n[Koa](adapters/koa.md#limits) [Koa](adapters/koa.md) [Log](../CHANGELOG.md)\n";
  expect(readSidebar(index)).toMatchObject([
    {
      text: "One",
      items: [
        { text: "Koa", link: "/adapters/koa" },
        { text: "All", link: "/adapters/" },
      ],
    },
    { text: "Two", items: [{ text: "Log", link: "/changelog" }] },
  ]);
});
