import { renderTable } from "../../scripts/support/sections.ts";
import { frameworks } from "../registry/frameworks.ts";
import { type NamedNeighbours, runAside, table } from "./table.ts";

/** The part of docs/adapters/neighbours.md that names what was run with what. */
export function renderNeighbours(): string {
  const variants = frameworks.flatMap((framework) => Object.values(framework.variants));
  const rows: readonly (readonly [string, { readonly note?: string }])[] = Object.entries({
    ...table,
    ...runAside,
  });
  return renderTable(
    ["Neighbour", ...variants.map(({ title }) => title), "Note"],
    rows.map(([row, { note = "" }]) => {
      const named = variants.map(({ neighbours }) => neighbours[row as keyof NamedNeighbours]);
      const packages = new Set(named.filter((name) => name !== undefined));
      return [[...packages].join(", "), ...named.map((name) => (name === undefined ? "" : "✓")), note];
    }),
  );
}
