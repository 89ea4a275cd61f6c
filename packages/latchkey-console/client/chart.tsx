/** Requests by decision: the only chart that needs uPlot. Its legend shows the numbers. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { type DecisionName, decisionNames, type HistoryView } from "../src/wire.ts";
import { countText } from "./format.ts";
import { StateIcon, type StateName } from "./parts.tsx";
import { isDark } from "./theme.ts";

const labels: Readonly<Record<DecisionName, string>> = {
  executed: "executed",
  replayed: "replayed",
  in_progress: "in progress",
  key_misuse: "key misuse",
  expired: "expired",
  unknown: "unknown",
};
const icons: Readonly<Partial<Record<DecisionName, StateName>>> = {
  in_progress: "in_progress",
  key_misuse: "failed",
  expired: "expired",
  unknown: "unknown",
};
const tokens: Readonly<Record<DecisionName, string>> = {
  executed: "--executed",
  replayed: "--replayed",
  in_progress: "--in-progress",
  key_misuse: "--failed",
  expired: "--expired",
  unknown: "--unknown-fill",
};

const height = 208;
const spanMinSeconds = 30 * 60;

/** Without the current minute, which is incomplete and would look like a drop. */
function completeMinutes(history: HistoryView): HistoryView {
  if (history.minutes.length < 3) return history;
  const without = <T,>(values: readonly T[]) => values.slice(0, -1);
  const { executed, replayed, in_progress, key_misuse, expired, unknown } = history.decisions;
  return {
    ...history,
    minutes: without(history.minutes),
    decisions: {
      executed: without(executed),
      replayed: without(replayed),
      in_progress: without(in_progress),
      key_misuse: without(key_misuse),
      expired: without(expired),
      unknown: without(unknown),
    },
  };
}

export function Requests({ history: all }: { readonly history: HistoryView }) {
  const history = completeMinutes(all);
  const plot = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const last = history.minutes.length - 1;
  const shown = at !== null && at <= last ? at : last;
  useEffect(() => {
    const place = plot.current;
    if (place === null) return;
    const made = new uPlot(optionsOf(place, setAt), dataOf(history), place);
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height }));
    watch.observe(place);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [isDark.value]);
  useEffect(() => chart.current?.setData(dataOf(completeMinutes(all))), [all]);
  const total = decisionNames.reduce((sum, name) => sum + (history.decisions[name][shown] ?? 0), 0);
  return (
    <section class="section" aria-labelledby="h-req">
      <header>
        <h2 id="h-req">Requests by decision</h2>
        <span class="say">per minute, for this process since {history.since.slice(11, 16)} UTC</span>
      </header>
      <div class="chart">
        <div class="plot" ref={plot} role="img" aria-label={sentenceOf(history)} />
        <table class="readout">
          <caption>{minuteText(history.minutes[shown])}, per minute</caption>
          <tbody>
            {decisionNames.toReversed().map((name) => (
              <tr key={name}>
                <th scope="row">
                  {icons[name] === undefined ? (
                    <i class={`swatch s-${name}`} />
                  ) : (
                    <StateIcon state={icons[name]} />
                  )}
                  {labels[name]}
                </th>
                <td>{countText(history.decisions[name][shown] ?? 0)}</td>
              </tr>
            ))}
            <tr class="total">
              <th scope="row">all requests</th>
              <td>{countText(total)}</td>
            </tr>
          </tbody>
        </table>
      </div>
    </section>
  );
}

function minuteText(seconds: number | undefined): string {
  return seconds === undefined ? "" : new Date(seconds * 1_000).toISOString().slice(11, 16);
}

function sentenceOf({ decisions, minutes }: HistoryView): string {
  const sums = decisionNames.map(
    (name) => `${decisions[name].reduce((sum, n) => sum + n, 0)} ${labels[name]}`,
  );
  return `Requests by decision over the last ${minutes.length} minutes: ${sums.join(", ")}.`;
}

/** Stacked layers, the most important on top; drawn from the top down, so that each layer covers the one below it. */
function dataOf({ minutes, decisions }: HistoryView): uPlot.AlignedData {
  // A single minute would have no area.
  const first = minutes[0] ?? 0;
  const isAlone = minutes.length === 1;
  const xs = isAlone ? [first - 60, first] : [...minutes];
  const sums = xs.map(() => 0);
  const layers = decisionNames.map((name) => {
    const values = isAlone ? [0, ...decisions[name]] : decisions[name];
    for (const [index, value] of values.entries()) sums[index] = (sums[index] ?? 0) + value;
    return [...sums];
  });
  return [xs, ...layers.toReversed()];
}

function optionsOf(place: HTMLElement, onIndex: (index: number | null) => void): uPlot.Options {
  const color = (token: string) => getComputedStyle(place).getPropertyValue(token).trim();
  const ink = color("--ink-3");
  const axis = { stroke: ink, font: '11px "Plex Sans", system-ui, sans-serif', ticks: { show: false } };
  return {
    width: place.clientWidth,
    height,
    padding: [8, 0, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      // If the process has just started, one minute would otherwise fill the whole width.
      x: { time: true, range: (_u, min, max) => [Math.min(min, max - spanMinSeconds), max] },
      y: { range: (_u, _min, max) => [0, Math.max(4, max * 1.1)] },
    },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), "UTC"),
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 24,
        space: 64,
        incrs: [300, 600, 900, 1_800, 3_600],
        values: (_u, splits) => splits.map(minuteText),
      },
      {
        ...axis,
        side: 1,
        size: 44,
        grid: { stroke: color("--grid"), width: 1 },
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000],
      },
    ],
    series: [
      {},
      ...decisionNames.toReversed().map((name) => ({
        label: labels[name],
        stroke: color(name === "executed" || name === "replayed" ? "--series-edge" : "--ground"),
        fill: color(tokens[name]),
        width: 1,
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [(chart) => onIndex(chart.cursor.idx ?? null)] },
  };
}
