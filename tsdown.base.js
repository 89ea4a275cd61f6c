/** How packages are built: one file for each module that package.json exports, shared chunks, and declarations beside them. */
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseSync } from "oxc-parser";
import { defineConfig } from "tsdown";

/** `./dist/http/express/express.js` is made of `src/http/express/express.ts`. */
const nameOf = (built) => built.replace(/^\.\/dist\//u, "").replace(/\.js$/u, "");

/** Node prints the source line of an uncaught error. */
const lineLengthMax = 400;

/** Lists before whose elements a line can end. Not those of sequences and parameters: `return` and `async` come before them. */
const lists = ["body", "consequent", "elements", "properties", "arguments"];

function lineStarts(path, code) {
  const starts = [];
  const visit = (node) => {
    for (const [key, value] of Object.entries(node)) {
      for (const child of [value].flat()) {
        if (child?.type === undefined) continue;
        if (Array.isArray(value) && lists.includes(key)) starts.push(child.start);
        visit(child);
      }
    }
  };
  visit(parseSync(path, code).program);
  return starts.sort((one, other) => one - other);
}

function breakLines(path, code) {
  const starts = lineStarts(path, code);
  let broken = "";
  let begun = 0;
  starts.forEach((start, at) => {
    if ((starts[at + 1] ?? code.length) - begun <= lineLengthMax || start === begun) return;
    broken += `${code.slice(begun, start)}\n`;
    begun = start;
  });
  return broken + code.slice(begun);
}

function shortenLines(folder) {
  for (const path of globSync(join(folder, "dist/**/*.js"))) {
    writeFileSync(path, breakLines(path, readFileSync(path, "utf8")));
  }
}

export function bundled(folder) {
  const { exports, bin = {} } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const names = [...Object.values(exports).map((row) => row.default), ...Object.values(bin)].map(nameOf);
  return defineConfig({
    entry: Object.fromEntries(names.map((name) => [name, `src/${name}.ts`])),
    tsconfig: "tsconfig.build.json",
    format: "esm",
    platform: "node",
    target: "node22",
    fixedExtension: false,
    dts: true,
    deps: { skipNodeModulesBundle: true },
    outputOptions: {
      comments: false,
      chunkFileNames: "chunks/[name].js",
      // Three small files, of which most entries load two: as one chunk they take less of the tarball.
      codeSplitting: {
        groups: [{ name: "retry", test: /\/time\/(?:retry|time)-/u }],
        includeDependenciesRecursively: false,
      },
    },
    // No syntax is rewritten, since the tests run on the sources, and stack traces keep the names of functions.
    minify: {
      compress: false,
      mangle: { toplevel: true, keepNames: true },
      codegen: { removeWhitespace: true },
    },
    hooks: { "build:done": () => shortenLines(folder) },
    logLevel: "warn",
  });
}
