import { builtinModules } from "node:module";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

/**
 * Node's modules as wrangler bundles them for `nodejs_compat`: under their prefix, and what is required by CommonJS by way
 * of an import, as a worker has no `require`.
 */
const builtins: Plugin = {
  name: "builtins",
  setup({ onResolve, onLoad }) {
    const filter = new RegExp(`^(node:)?(${builtinModules.join("|")})$`);
    onResolve({ filter }, ({ path, kind }) => {
      const name = path.startsWith("node:") ? path : `node:${path}`;
      return kind === "require-call" ? { path: name, namespace: "required" } : { path: name, external: true };
    });
    onLoad({ filter: /.*/, namespace: "required" }, ({ path }) => ({
      contents: `import builtin from ${JSON.stringify(path)}; module.exports = builtin;`,
    }));
  },
};

/** A worker's module, with the real library and clients in it, as Cloudflare's tool bundles it. */
export async function bundleWorker(file: URL): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(file)],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    logLevel: "error",
    conditions: ["latchkey-source", "workerd", "worker"],
    external: ["cloudflare:*"],
    plugins: [builtins],
  });
  return outputFiles[0]?.text ?? "";
}
