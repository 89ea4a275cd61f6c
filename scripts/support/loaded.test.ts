import { expect, test } from "vitest";
import { findLoadProblems, loadedBy } from "./loaded.ts";

const row = (path: string) => ({ default: `./dist/${path}.js` });
const exports = {
  ".": row("index"),
  "./koa": row("http/koa"),
  "./express": row("http/express"),
  "./pg": row("sql/pg"),
};
const files: Readonly<Record<string, string>> = {
  "dist/index.js": 'import{t as a}from"./chunks/shared.js";import"node:crypto";export{a as create};',
  "dist/http/koa.js":
    'import{t as a}from"../chunks/shared.js";function koaProtect(e){return a(import("koa"))}export{koaProtect};',
  "dist/http/express.js":
    'import e from"node:http";import{t as a}from"../chunks/shared.js";function expressProtect(){}export{expressProtect};',
  "dist/sql/pg.js": "class PgBridge{}export{PgBridge};",
  "dist/chunks/shared.js": 'import"./more.js";export{create as t};function create(){}',
  "dist/chunks/more.js": 'export const more=`import x from"not-an-import"`;',
};
const problemsOf = (changes: Readonly<Record<string, string>>) => {
  const all = { ...files, ...changes };
  return findLoadProblems(exports, "", (path) => all[path] ?? "");
};

test("static imports are followed through chunks; dynamic imports are not", () => {
  const loaded = loadedBy("dist/http/koa.js", (path) => files[path] ?? "");
  expect(loaded).toEqual({
    files: ["dist/http/koa.js", "dist/chunks/shared.js", "dist/chunks/more.js"],
    outside: [],
  });
  expect(problemsOf({})).toEqual([]);
});

test("a framework that a chunk loads is named, for each module that loads the chunk", () => {
  const { "dist/chunks/more.js": more = "" } = files;
  expect(problemsOf({ "dist/chunks/more.js": `import k from"koa";${more}` })).toEqual([
    ". loads koa",
    "./koa loads koa",
    "./express loads koa",
  ]);
});

test("another adapter's code is named, by its file or in a chunk", () => {
  const { "dist/http/koa.js": koa = "" } = files;
  const found = ["./koa loads expressProtect of ./express"];
  expect(problemsOf({ "dist/http/koa.js": `import{expressProtect as o}from"./express.js";${koa}` })).toEqual(
    found,
  );
  expect(
    problemsOf({
      "dist/http/express.js": 'export{t as expressProtect}from"../chunks/both.js";',
      "dist/chunks/both.js": "function expressProtect(){}export{expressProtect as t};",
      "dist/http/koa.js": `import"../chunks/both.js";${koa}`,
    }),
  ).toEqual(found);
});
