/** The aims of speed, and what the last run of each bench measured. */
import type { Result } from "../report.ts";
import { type Dispatched, dispatch, far, inbox, near, type Run, scale, startUp, store } from "./runs.ts";

interface Row {
  readonly comparison: string;
  readonly aim: string;
  /** Null: not measured. */
  readonly measured: string | null;
  readonly run: Pick<Run<never>, "date" | "command"> | null;
}

const two = (value: number) => value.toFixed(2);

/** The range over the frameworks that were measured. */
function range(values: readonly number[]): string | null {
  const known = values.filter(Number.isFinite);
  if (known.length === 0) return null;
  const [low, high] = [two(Math.min(...known)), two(Math.max(...known))];
  return low === high ? low : `${low} to ${high}`;
}

type Choice = Partial<Pick<Result, "job" | "guard" | "concurrency">>;

function chosen(run: Run<Result> | null, wanted: Choice): readonly Result[] {
  const matches = (one: Result) =>
    Object.entries(wanted).every(([name, value]) => one[name as keyof Choice] === value);
  return run?.results.filter(matches) ?? [];
}

const ratios = (run: Run<Result> | null, wanted: Choice) =>
  range(chosen(run, wanted).map(({ ratio }) => ratio));

function p50Ratios(run: Run<Result> | null, wanted: Choice): string | null {
  const plain = chosen(run, { ...wanted, guard: "none" });
  return range(
    chosen(run, wanted).map(({ framework, concurrency, p50Ms }) => {
      const same = plain.find((one) => one.framework === framework && one.concurrency === concurrency);
      return p50Ms / (same?.p50Ms ?? Number.NaN);
    }),
  );
}

function firstRequests(): Row[] {
  const at = [1, 8, 32];
  const places = [
    { run: near, place: "" },
    { run: far, place: ", 0.5 ms round trip" },
  ];
  return places.flatMap(({ run, place }) => [
    ...at.map((concurrency) => ({
      comparison: `first request ÷ plain, c = ${concurrency}${place}`,
      aim: concurrency === 32 ? "≥ 0.90" : "≥ 0.95",
      measured: ratios(run, { job: "order", guard: "latchkey", concurrency }),
      run,
    })),
    ...at.map((concurrency) => ({
      comparison: `first request, optimistic, ÷ plain, c = ${concurrency}${place}`,
      aim: "≥ 1.0",
      measured: ratios(run, { job: "order", guard: "latchkey-optimistic", concurrency }),
      run,
    })),
    ...(run === far
      ? at.map((concurrency) => ({
          comparison: `the same, p50, c = ${concurrency}${place}`,
          aim: "≤ 0.85",
          measured: p50Ratios(run, { job: "order", guard: "latchkey-optimistic", concurrency }),
          run,
        }))
      : []),
  ]);
}

function ofStore(): Row[] {
  const of = (name: string) => store?.results.find((one) => one.name === name)?.ratio ?? null;
  const rows = [
    ["replay from Postgres ÷ one pooled SELECT each, c = 32", "replay"],
    ["lease, reservation and end ÷ two pooled statements, c = 32", "lease"],
  ] as const;
  return rows.map(([comparison, name]) => {
    const ratio = of(name);
    return { comparison, aim: "≥ 3", measured: ratio === null ? null : two(ratio), run: store };
  });
}

function ofDispatch(): Row[] {
  const queues = dispatch?.results.filter(({ jobsPerSecond }) => jobsPerSecond !== null) ?? [];
  const kept = queues.find(({ name }) => name === "latchkey");
  const removed = queues.find(({ name }) => name.startsWith("latchkey, `keepMs"));
  const others = queues.filter(({ name }) => !name.startsWith("latchkey"));
  const cpuOf = (one: Dispatched | undefined) =>
    (one?.workerMicros ?? Number.NaN) + (one?.databaseMicros ?? 0);
  const faster = Math.max(...others.map(({ jobsPerSecond }) => jobsPerSecond ?? 0));
  const cheaper = Math.min(...others.map(cpuOf));
  return [
    { own: kept, how: "" },
    { own: removed, how: ", `keepMs: 0`" },
  ].flatMap(({ own, how }) => [
    {
      comparison: `outbox${how}, jobs/s ÷ the better of pg-boss and graphile-worker`,
      aim: "> 1.2",
      measured: range([(own?.jobsPerSecond ?? Number.NaN) / faster]),
      run: dispatch,
    },
    {
      comparison: `outbox${how}, CPU of both sides for a job ÷ the better of them`,
      aim: "",
      measured: range([cpuOf(own) / cheaper]),
      run: dispatch,
    },
  ]);
}

function ofInbox(): Row[] {
  const of = (name: string) =>
    range(inbox?.results.filter((one) => one.name === name).map((one) => one.relative) ?? []);
  return [
    { comparison: "inbox ÷ bare insert", aim: "≥ 0.65", measured: of("inbox"), run: inbox },
    { comparison: "inbox, optimistic, ÷ bare insert", aim: "≥ 0.65", measured: of("optimistic"), run: inbox },
    { comparison: "inbox in batches ÷ bare insert", aim: "> 1", measured: of("batch"), run: inbox },
  ];
}

function ofMemory(): Row[] {
  const concurrencies = [...new Set(near.results.map(({ concurrency }) => concurrency))];
  return concurrencies.map((concurrency) => ({
    comparison: `replay from memory ÷ trivial endpoint, c = ${concurrency}`,
    aim: "≥ 0.85",
    measured: ratios(near, { job: "replay", guard: "latchkey-memory", concurrency }),
    run: near,
  }));
}

function ofScale(): Row[] {
  const count = (value: number) => value.toLocaleString("en-US");
  const sizes = scale?.rows.map(({ rows }) => rows) ?? [];
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const p50 = (kind: string, rows: number) =>
    scale?.rows.find((one) => one.kind === kind && one.rows === rows)?.p50Ms ?? Number.NaN;
  const where = scale === null ? "10,000,000 ÷ 10,000" : `${count(most)} ÷ ${count(least)}`;
  return [
    ...(["first", "replay"] as const).map((kind) => ({
      comparison: `${kind === "first" ? "first request" : "replay"}, p50 on a table of ${where} records`,
      aim: "≤ 1.2 at 10,000,000",
      measured: range([p50(kind, most) / p50(kind, least)]),
      run: scale,
    })),
    {
      comparison: `clean-up of 1,000 among ${count(scale?.cleaning.rows ?? 10_000_000)}, beside traffic: p50 of a batch`,
      aim: "≤ 10 ms",
      measured: scale === null ? null : `${scale.cleaning.batchP50Ms.toFixed(1)} ms`,
      run: scale,
    },
    {
      comparison: "p99 of that traffic ÷ without the clean-up",
      aim: "≤ 1.2",
      measured: range([scale?.cleaning.p99Ratio ?? Number.NaN]),
      run: scale,
    },
  ];
}

function ofStartUp(): Row[] {
  const [express, both] = startUp?.results ?? [];
  if (express === undefined || both === undefined) return [];
  const [wall, cpu] = [both.wallMs - express.wallMs, both.cpuMs - express.cpuMs];
  return [
    {
      comparison: "import of `latchkey/express` − import of `express` alone",
      aim: "≤ 40 ms",
      measured: `${wall.toFixed(0)} ms (${cpu.toFixed(0)} ms of CPU)`,
      run: startUp,
    },
  ];
}

/** @returns Markdown */
export function renderAims(): string {
  const rows = [
    ...firstRequests(),
    ...ofStore(),
    ...ofDispatch(),
    ...ofInbox(),
    ...ofMemory(),
    ...ofScale(),
    ...ofStartUp(),
  ];
  const runs = [
    ...new Set(rows.flatMap(({ measured, run }) => (measured === null || run === null ? [] : [run]))),
  ];
  const lines = rows.map(({ comparison, aim, measured, run }) => {
    const number = measured === null || run === null ? "" : String(runs.indexOf(run) + 1);
    return `| ${comparison} | ${aim} | ${measured ?? "not measured"} | ${number} |`;
  });
  const commands = runs.map(
    ({ date, command }, index) =>
      `${index + 1}. ${date}, \`${command.replace(/--out \S+/, "--out <folder>")}\``,
  );
  const head = ["| Comparison | Aim | Measured | Run |", "| --- | --- | --- | --- |"];
  return [...head, ...lines, "", "The runs:", "", ...commands].join("\n");
}
