import { renderTable } from "../../scripts/support/sections.ts";
import { type FrontEnd, frontEnds, type Row, runAside, table } from "./table.ts";

const titles: Readonly<Record<FrontEnd, string>> = {
  express: "Express 5",
  express4: "Express 4",
  fastify: "Fastify",
  koa: "Koa",
  hono: "Hono",
  nest: "Nest on Express",
  nestFastify: "Nest on Fastify",
  fetch: "Fetch",
  node: "node:http",
};

/** The part of docs/adapters/neighbours.md that names what was run with what. */
export function renderNeighbours(): string {
  const named: readonly Row[] = Object.values(table);
  return renderTable(
    ["Neighbour", ...frontEnds.map((frontEnd) => titles[frontEnd]), "To heed"],
    [...named, ...runAside].map(({ packages, on, note }) => [
      packages.join(", "),
      ...frontEnds.map((frontEnd) => (on.includes(frontEnd) ? "✓" : "")),
      note ?? "",
    ]),
  );
}
