/** The known facts about an unknown record, with times. */
import type { RecordReport } from "../src/wire.ts";
import { clockText } from "./format.ts";
import { decisionText } from "./life.ts";
import { Copy } from "./parts.tsx";

export function Known({ report }: { readonly report: RecordReport }) {
  return (
    <section class="block">
      <h3>What is known</h3>
      <ol class="known">
        <li>
          <time>{clockText(report.createdAt)}</time>
          <span>
            It started, with attempt 1{report.attempt > 1 ? `; attempt ${report.attempt} is the latest` : ""}
          </span>
        </li>
        {report.steps.map((step) => (
          <li key={step.name}>
            <time>{clockText(step.call?.startedAt ?? step.finishedAt ?? report.createdAt)}</time>
            <StepSentence step={step} />
          </li>
        ))}
        {report.reason != null && (
          <li>
            <time>now</time>
            <span>
              <code>{report.lastErrorCode}</code>: {report.reason}
            </span>
          </li>
        )}
        {report.audit.slice(-2).map((entry) => (
          <li key={entry.id}>
            <time>{clockText(entry.at)}</time>
            <span>
              <b>{entry.actor}</b> {decisionText(entry)}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

export function StepSentence({ step }: { readonly step: RecordReport["steps"][number] }) {
  const { name, call, state } = step;
  if (call === null) {
    return (
      <span>
        <span class="mono">{name}</span> was committed
      </span>
    );
  }
  const times = call.sends === 1 ? "once" : `${call.sends} times`;
  const end = {
    started: "It is not known how that ended",
    finished: "It has happened",
    refused: "The other service refused it for good",
    not_executed: "It did not happen",
  }[state];
  return (
    <span>
      <span class="mono">{call.effect}</span> was sent {times}, as step <span class="mono">{name}</span>,
      under <Copy text={call.downstreamKey} />. {end}
    </span>
  );
}
