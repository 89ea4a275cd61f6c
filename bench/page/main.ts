/** `npm run bench:page`: the first table, the aims and the picture of docs/performance.md, from the JSON of all benches. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { intoPage } from "../report.ts";
import { renderAims } from "./aims.ts";
import { plot } from "./plot.ts";
import { far, folder, near } from "./runs.ts";
import { renderSummary } from "./summary.ts";

const page = join(folder, "performance.md");
const farResults = far?.results ?? [];
const withSummary = intoPage(readFileSync(page, "utf8"), renderSummary(near.results, farResults), "summary");
writeFileSync(page, intoPage(withSummary, renderAims(), "aims"));
writeFileSync(
  join(folder, "images/performance-first-requests.svg"),
  `${await plot(near.results, farResults)}\n`,
);
