/** One entry of a record's life, as a sentence with what was stored. */
import type { RecordReport } from "../src/wire.ts";
import { exactTime } from "./format.ts";
import { StepSentence } from "./known.tsx";
import { decisionText, type LifeEvent } from "./life.ts";
import { Copy, Json, StateIcon } from "./parts.tsx";

export function Entry({ event, report }: { readonly event: LifeEvent; readonly report: RecordReport }) {
  const { at, kind, step, effect, audit } = event;
  return (
    <li>
      <time>{kind === "now" ? "now" : exactTime(at)}</time>
      {kind === "now" || kind === "finished" ? (
        <StateIcon state={report.state} />
      ) : kind === "settled" ? (
        <StateIcon
          state={audit?.to === "completed" ? "completed" : audit?.to === "failed" ? "failed" : "retryable"}
        />
      ) : effect?.state === "dead" && kind === "ended" ? (
        <StateIcon state="dead" />
      ) : (
        <i class="plain-dot" />
      )}
      <div>
        <Sentence event={event} report={report} />
        {step !== null && kind !== "sent" && step.result !== null && (
          <Stored label="Result" stored={step.result} />
        )}
        {step !== null && kind === "sent" && step.call !== null && (
          <Stored label="Input" stored={step.call.input} />
        )}
        {effect !== null && kind === "effect" && <Stored label="Input" stored={effect.input} />}
      </div>
    </li>
  );
}

function Sentence({ event, report }: { readonly event: LifeEvent; readonly report: RecordReport }) {
  const { kind, step, effect, audit } = event;
  switch (kind) {
    case "admitted":
      return (
        <p>
          <b>{report.tenant}</b> sent it, and it was admitted
          {report.principal === null ? "" : ` for ${report.principal}`}.
        </p>
      );
    case "phase":
      return (
        <p>
          <code>{step?.name}</code> was committed.
        </p>
      );
    case "sent":
      return <p>{step !== null && <StepSentence step={step} />}.</p>;
    case "effect":
      return (
        <p>
          <code>{effect?.effect}</code> was enqueued, under <Copy text={effect?.downstreamKey ?? ""} />.
        </p>
      );
    case "ended":
      return <EndedSentence step={step} effect={effect} />;
    case "settled":
      return (
        <>
          <p>
            <b>{audit?.actor}</b> {audit === null ? "" : decisionText(audit)}.
          </p>
          <p>
            Proof: {audit?.proof}.{audit?.reason == null ? "" : ` “${audit.reason}”`}
          </p>
        </>
      );
    case "finished":
      return (
        <p>
          It {report.state === "failed" ? "failed for good" : "was completed"}
          {report.answer !== null && "value" in report.answer
            ? ` with its answer: ${report.answer.value.status}`
            : ""}
          .
        </p>
      );
    case "now":
      return (
        <>
          {report.next.map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
        </>
      );
    default:
      return kind satisfies never;
  }
}

function EndedSentence({ step, effect }: Pick<LifeEvent, "step" | "effect">) {
  return effect === null ? (
    <p>
      The call of <code>{step?.name}</code> ended: {step?.state}.
    </p>
  ) : (
    <>
      <p>
        <code>{effect.effect}</code> {effect.state === "dead" ? "was given up" : "was delivered"}, after{" "}
        {effect.sends === 1 ? "1 send" : `${effect.sends} sends`}.
      </p>
      {effect.reason !== null && <p>{effect.reason}</p>}
    </>
  );
}

function Stored({
  label,
  stored,
}: {
  readonly label: string;
  readonly stored: { readonly value: unknown } | { readonly unreadable: number };
}) {
  return (
    <p>
      {label}{" "}
      {"value" in stored ? (
        <code>
          <Json value={stored.value} isInline />
        </code>
      ) : (
        `of ${stored.unreadable} bytes, which cannot be read here`
      )}
    </p>
  );
}
