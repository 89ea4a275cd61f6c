/** The picture of first requests, without a network and with one. */
import { parse, View } from "vega";
import { compile, type TopLevelSpec } from "vega-lite";
import type { Result } from "../report.ts";

const names: Readonly<Record<string, string>> = {
  latchkey: "protected, default admission",
  "latchkey-optimistic": "protected, optimistic admission",
};
/** Readable on light and on dark pages. */
const ink = "#808080";

function rowsOf(results: readonly Result[], network: string) {
  return results
    .filter(({ framework, job, guard }) => framework === "express" && job === "order" && guard in names)
    .map(({ guard, concurrency, ratio }) => ({ network, concurrency, ratio, what: names[guard] }));
}

const specOf = (values: readonly object[]): TopLevelSpec => ({
  $schema: "https://vega.github.io/schema/vega-lite/v6.json",
  background: "transparent",
  data: { values: [...values] },
  facet: {
    column: {
      field: "network",
      type: "nominal",
      sort: null,
      header: { title: null, labelColor: ink, labelFontSize: 13 },
    },
  },
  spec: {
    width: 260,
    height: 200,
    layer: [
      {
        mark: { type: "bar", cornerRadiusEnd: 2 },
        encoding: {
          x: { field: "concurrency", type: "ordinal", title: "concurrent requests", axis: { labelAngle: 0 } },
          xOffset: { field: "what" },
          y: { field: "ratio", type: "quantitative", title: "throughput ÷ unprotected" },
          color: {
            field: "what",
            type: "nominal",
            title: null,
            scale: { range: ["#5b7fa6", "#e08a3c"] },
            legend: { orient: "top", labelFontSize: 12, labelLimit: 300, offset: 12 },
          },
        },
      },
      { mark: { type: "rule", color: ink, strokeDash: [4, 3] }, encoding: { y: { datum: 1 } } },
    ],
  },
  config: {
    font: "sans-serif",
    axis: { labelColor: ink, titleColor: ink, gridColor: "#80808040", domainColor: ink, tickColor: ink },
    legend: { labelColor: ink },
    view: { stroke: null },
  },
});

/** @returns an SVG */
export async function plot(near: readonly Result[], far: readonly Result[]): Promise<string> {
  const values = [
    ...rowsOf(near, "database on the same machine"),
    ...rowsOf(far, "0.5 ms round trip to the database"),
  ];
  return new View(parse(compile(specOf(values)).spec), { renderer: "none" }).toSVG();
}
