/** The first table of the page: throughput and median time of first requests beside the same endpoints without Latchkey. */
import { frameworks } from "../http/subject.ts";
import type { Result } from "../report.ts";

const admissions = { latchkey: "default", "latchkey-optimistic": "optimistic" } as const;

/** @returns Markdown */
export function renderSummary(near: readonly Result[], far: readonly Result[]): string {
  const places = [
    { results: near, where: "" },
    { results: far, where: ", 0.5 ms away" },
  ];
  const columns = places.flatMap(({ results, where }) =>
    frameworks
      .filter((framework) => ordersOf(results).some((one) => one.framework === framework))
      .map((framework) => ({ results, framework, title: `${nameOf[framework]}${where}` })),
  );
  const concurrencies = [...new Set(near.map(({ concurrency }) => concurrency))];
  const rows = concurrencies.flatMap((concurrency) =>
    (["latchkey", "latchkey-optimistic"] as const).map((guard) => [
      String(concurrency),
      admissions[guard],
      ...columns.map(({ results, framework }) => cell(results, { framework, concurrency, guard })),
    ]),
  );
  const titles = [
    "Concurrent requests",
    "[Admission](optimistic-admission.md)",
    ...columns.map(({ title }) => title),
  ];
  return [titles, titles.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

const nameOf = { express: "Express", fastify: "Fastify", hono: "Hono" } as const;

const ordersOf = (results: readonly Result[]) => results.filter(({ job }) => job === "order");

type Place = Pick<Result, "framework" | "concurrency" | "guard">;

function cell(results: readonly Result[], wanted: Place): string {
  const at = (guard: Result["guard"]) =>
    ordersOf(results).find(
      (one) =>
        one.guard === guard && one.framework === wanted.framework && one.concurrency === wanted.concurrency,
    );
  const [own, plain] = [at(wanted.guard), at("none")];
  if (own === undefined || plain === undefined) return "";
  return `${own.ratio.toFixed(2)} (${(own.p50Ms / plain.p50Ms).toFixed(2)})`;
}
