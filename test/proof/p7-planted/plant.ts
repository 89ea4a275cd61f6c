/**
 * Loaded before anything else (`node --import`), in a process and in all that it starts: plants the bug that
 * LATCHKEY_PLANTED names.
 */
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { type Change, planted } from "./bug.ts";
import { bugs } from "./bugs.ts";

const name = process.env.LATCHKEY_PLANTED;
const bug = bugs.find((one) => one.name === name);
if (name !== undefined && bug === undefined) throw new Error(`There is no planted bug "${name}"`);

const source = fileURLToPath(new URL("../../../packages/latchkey/src/", import.meta.url));
const changes = Map.groupBy(bug?.changes ?? [], ({ file }) => `${source}${file}`);

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const here = url.startsWith("file:") ? changes.get(fileURLToPath(url)) : undefined;
    return here === undefined ? loaded : { ...loaded, source: changed(String(loaded.source), here) };
  },
});

function changed(text: string, here: readonly Change[]): string {
  return here.reduce(planted, text);
}
