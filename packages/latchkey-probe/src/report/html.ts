import { printable } from "../printable.ts";
import { htmlStyle } from "./html-style.ts";
import type { CheckReport, Exchange, Report, TargetReport } from "./report.ts";

const words = { passed: "passed", faulty: "faulty", inconclusive: "unclear", skipped: "skipped" } as const;

/** One page that loads and runs nothing, because a report contains text from the server. */
export function htmlReport(report: Report): string {
  const { summary, targets, profile, startedAt, requests, version } = report;
  const result = summary.faults > 0 ? "faulty" : summary.unjudgedTargets > 0 ? "inconclusive" : "passed";
  const title =
    summary.faults > 0 ? `${summary.faults} faults` : summary.unjudgedTargets > 0 ? "not judged" : "no fault";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>latchkey-probe: ${title}</title>
<style>${htmlStyle}</style>
</head>
<body>
<header>
<h1>Idempotency: <span class="${result}">${title}</span></h1>
<p>${summary.passed} checks passed, ${summary.faulty} faulty, ${summary.inconclusive} unclear, ${summary.skipped} skipped.
Profile ${html(profile)}, ${requests} requests, <time datetime="${html(startedAt)}">${html(startedAt)}</time>, latchkey-probe ${html(version)}.</p>
</header>
<main>
${targets.map(targetSection).join("\n")}
${leftOutSection(report)}
</main>
</body>
</html>`;
}

function leftOutSection({ leftOut }: Report): string {
  if (leftOut.length === 0) return "";
  const items = leftOut.map(({ name, reason }) => `<li><b>${html(name)}</b>: ${html(reason)}</li>`);
  return `<section><h2>Left out</h2><ul>${items.join("")}</ul></section>`;
}

function targetSection({ name, url, unjudged, toldApartBy, checks, exchanges }: TargetReport): string {
  const distinction =
    toldApartBy.length === 0
      ? "Executions cannot be distinguished by their answers."
      : `Executions are distinguished by ${toldApartBy.map((place) => `<code>${html(place)}</code>`).join(", ")}.`;
  const about =
    unjudged === null
      ? `<p>${distinction}</p>`
      : `<p class="inconclusive">Not judged: ${html(unjudged)}</p>${exchangeTable(exchanges)}`;
  return `<section>
<h2>${html(name)}</h2>
<p><code>${html(url)}</code></p>
${about}
${checks.map(checkDetails).join("\n")}
</section>`;
}

function checkDetails({
  name,
  about,
  verdict,
  reason,
  faults,
  ignored,
  notes,
  exchanges,
}: CheckReport): string {
  const open = verdict === "faulty" ? " open" : "";
  const items = [
    ...faults.map(
      ({ code, kind, title, message }) =>
        `<li class="faulty"><strong>${html(title)}</strong>: ${html(message)} <code>${code}</code> <em>${kind}</em></li>`,
    ),
    ...ignored.map(({ code, message }) => `<li>Ignored <code>${code}</code>: ${html(message)}</li>`),
    ...(reason === null ? [] : [`<li>${html(reason)}</li>`]),
    ...notes.map((note) => `<li>${html(note)}</li>`),
  ];
  return `<details${open}>
<summary><span class="verdict ${verdict}">${words[verdict]}</span> <b>${html(name)}</b> ${html(about)}</summary>
${items.length === 0 ? "" : `<ul>${items.join("")}</ul>`}
${exchangeTable(exchanges)}
</details>`;
}

function exchangeTable(exchanges: readonly Exchange[]): string {
  if (exchanges.length === 0) return "";
  const rows = exchanges.map((exchange) => {
    const { caller, key, sent, status, headers, body, problem, cut } = exchange;
    const answer =
      status === null ? (problem ?? (cut === null ? "no answer" : `cut: ${cut}`)) : String(status);
    const lines = headers.map((line) => line.join(": ")).join("\n");
    return `<tr><td>${caller}</td><td><code>${html(key.join("\n") || "none")}</code></td><td><pre>${html(sent)}</pre></td><td>${html(answer)}</td><td><pre>${html(lines)}</pre></td><td><pre>${html(body)}</pre></td></tr>`;
  });
  return `<div class="wide"><table>
<thead><tr><th>Caller</th><th>Key</th><th>Sent</th><th>Answer</th><th>Headers</th><th>Body</th></tr></thead>
<tbody>${rows.join("\n")}</tbody>
</table></div>`;
}

function html(text: string): string {
  return printable(text)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}
