/** How packages are built: one file for each module that package.json exports, shared chunks, and declarations beside them. */
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { transform } from "esbuild";
import { defineConfig } from "tsdown";

/** `./dist/http/express/express.js` is made of `src/http/express/express.ts`. */
const nameOf = (built) => built.replace(/^\.\/dist\//u, "").replace(/\.js$/u, "");

/** White space goes, but lines stay short: Node prints the source line of an uncaught error. */
async function shortenLines(folder) {
  for (const path of globSync(join(folder, "dist/**/*.js"))) {
    const { code } = await transform(readFileSync(path, "utf8"), {
      format: "esm",
      target: "node22",
      charset: "utf8",
      legalComments: "none",
      minifyWhitespace: true,
      lineLimit: 400,
    });
    writeFileSync(path, code);
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
    outputOptions: { comments: false, chunkFileNames: "chunks/[name]-[hash].js" },
    // No syntax is rewritten, since the tests run on the sources, and stack traces keep the names of functions.
    minify: {
      compress: false,
      mangle: { toplevel: false, keepNames: true },
      codegen: { removeWhitespace: false },
    },
    hooks: { "build:done": () => shortenLines(folder) },
    logLevel: "warn",
  });
}
