/** The life of a record as a picture. Dotted: the end is not known. Dashed across: a decision of a person, or an end. */
import type { RecordReport } from "../src/wire.ts";
import { ageText, exactTime, shortKey } from "./format.ts";
import { type Band, eventsOf, type Life, lifeOf } from "./life.ts";
import { StateIcon, wordOf } from "./parts.tsx";

export function LifePicture({ report }: { readonly report: RecordReport }) {
  const life = lifeOf(report);
  const calls = report.steps.filter(({ call }) => call !== null);
  const lanes = [
    "Record",
    "Steps",
    ...(calls.length > 0 ? ["Outbound call"] : []),
    ...(report.effects.length > 0 ? ["Effects"] : []),
    ...(report.audit.some(({ recordId }) => recordId === report.id) ? ["Person"] : []),
  ];
  const yOf = (lane: string) => 38 + lanes.indexOf(lane) * 44;
  const height = 38 + lanes.length * 44;
  return (
    <>
      <figure class="life">
        <svg
          viewBox={`0 0 ${life.width} ${height}`}
          role="img"
          aria-label={`The life of ${report.key}. The list below has the same content in words.`}
        >
          <defs>
            <pattern
              id="hatch-unknown"
              width="7"
              height="7"
              patternUnits="userSpaceOnUse"
              patternTransform="rotate(45)"
            >
              <path class="hatch" d="M0 0V7" />
            </pattern>
          </defs>
          <Axis life={life} />
          {lanes.map((lane) => (
            <g key={lane}>
              {lane !== "Record" && <path class="lane" d={`M0 ${yOf(lane) - 8}H${life.width}`} />}
              <text class="t-lane" x="0" y={yOf(lane) + 18}>
                {lane}
              </text>
            </g>
          ))}
          {life.bands.map((band) => (
            <BandShape key={`${band.state} ${band.from}`} band={band} y={yOf("Record")} />
          ))}
          <Steps report={report} life={life} y={yOf("Steps")} />
          {calls.length > 0 && <Calls report={report} life={life} y={yOf("Outbound call")} />}
          {report.effects.length > 0 && <Effects report={report} life={life} y={yOf("Effects")} />}
          {lanes.includes("Person") && (
            <People report={report} life={life} y={yOf("Person")} height={height} />
          )}
        </svg>
      </figure>
      <ol class="life-short" aria-label="In short">
        {life.bands.slice(0, 4).map((band) => (
          <li key={`${band.state} ${band.from}`}>
            <span class={`b b-${band.state.replace("_", "-")}`}>
              <StateIcon state={band.state} />
            </span>
            {wordOf(band.state)}
          </li>
        ))}
      </ol>
    </>
  );
}

/** Labels that would overlap the previous one are omitted; the list has all of them. */
const labelWidth = 96;

function Axis({ life }: { readonly life: Life }) {
  let free = 0;
  return (
    <g>
      <path class="tick" d={`M132 28H${life.width}`} />
      {life.anchors.map(({ x, at, cutMs }, index) => {
        const isLast = index === life.anchors.length - 1;
        const isRoom = x >= free;
        if (isRoom) free = x + labelWidth;
        const before = life.anchors[index - 1]?.x ?? x;
        const middle = (before + x) / 2;
        return (
          <g key={at}>
            <path class="tick" d={`M${x} 22v6`} />
            {isRoom && (
              <text
                class="t-faint"
                x={x}
                y="16"
                text-anchor={index === 0 ? "start" : isLast ? "end" : "middle"}
              >
                {exactTime(at)}
              </text>
            )}
            {cutMs !== null && (
              <>
                <path class="tick" d={`M${middle - 5} 32l4-8M${middle + 1} 32l4-8`} fill="none" />
                {x - before > 150 && (
                  <text class="t-faint" x={middle} y="16" text-anchor="middle" font-style="italic">
                    {ageText(cutMs)}
                  </text>
                )}
              </>
            )}
          </g>
        );
      })}
    </g>
  );
}

function BandShape({ band, y }: { readonly band: Band; readonly y: number }) {
  const { state, from, to } = band;
  const name = state.replace("_", "-");
  const width = Math.max(2, to - from - 1);
  return (
    <g class={`is-${name}`}>
      <rect class={`band b-${name}`} x={from} y={y} width={width} height="28" />
      {state === "unknown" && (
        <rect class="hatching" fill="url(#hatch-unknown)" x={from} y={y} width={width} height="28" />
      )}
      {width > 24 && (
        <g class={`st is-${name}`}>
          <use href={`#s-${name}`} x={from + 8} y={y + 7} width="14" height="14" />
        </g>
      )}
      {width > 110 && (
        <text class={`word${state === "unknown" ? " on-unknown" : ""}`} x={from + 27} y={y + 18}>
          {wordOf(state)}
        </text>
      )}
    </g>
  );
}

interface LaneProps {
  readonly report: RecordReport;
  readonly life: Life;
  readonly y: number;
}

function Steps({ report, life, y }: LaneProps) {
  let free = 0;
  return (
    <g>
      {report.steps
        .filter(({ call }) => call === null)
        .map(({ name, finishedAt }) => {
          const x = life.xOf(finishedAt ?? report.createdAt);
          const isRoom = x >= free;
          if (isRoom) free = x + 24 + name.length * 7;
          return (
            <g key={name}>
              <rect class="step" x={x - 6} y={y + 7} width="12" height="14" />
              {isRoom && (
                <text class="t-mono" x={x + 12} y={y + 18}>
                  {name}
                </text>
              )}
            </g>
          );
        })}
    </g>
  );
}

function Calls({ report, life, y }: LaneProps) {
  return (
    <g>
      {report.steps.map(({ name, call, state, finishedAt }) => {
        if (call === null) return null;
        const from = life.xOf(call.startedAt);
        const isOpen = state === "started";
        const to = finishedAt === null ? from + (isOpen ? 150 : 24) : life.xOf(finishedAt);
        return (
          <g key={name}>
            <path
              class="call"
              d={`M${from} ${y + 14}H${Math.max(to, from + 12)}`}
              stroke-dasharray={isOpen ? "2 6" : undefined}
            />
            <circle class="ink" cx={from} cy={y + 14} r="4" />
            <text class="t-mono halo" x={from - 4} y={y + 5}>
              {shortKey(call.downstreamKey)}
            </text>
            <text class="t-quiet halo" x={Math.max(to, from + 12) + 8} y={y + 18}>
              {isOpen
                ? `sent ${call.sends === 1 ? "once" : `${call.sends} times`}, it is not known how it ended`
                : state.replace("_", " ")}
            </text>
          </g>
        );
      })}
    </g>
  );
}

function Effects({ report, life, y }: LaneProps) {
  return (
    <g>
      {report.effects.slice(0, 6).map((effect, index) => {
        const from = life.xOf(effect.createdAt);
        const to = effect.finishedAt === null ? from : life.xOf(effect.finishedAt);
        const isDead = effect.state === "dead";
        return (
          <g key={effect.id}>
            <path class="wire" d={`M${from} ${y + 14}H${to}`} />
            <circle class="ink" cx={from} cy={y + 14} r="3" />
            {isDead && (
              <g class="st is-dead">
                <use href="#s-dead" x={to + 4} y={y + 7} width="14" height="14" />
              </g>
            )}
            {index === 0 && (
              <text class="t-quiet halo" x={to + 24} y={y + 18}>
                {effect.effect} {effect.state}
                {report.effects.length > 1 ? `, and ${report.effects.length - 1} more` : ""}
              </text>
            )}
          </g>
        );
      })}
    </g>
  );
}

function People({ report, life, y, height }: LaneProps & { readonly height: number }) {
  return (
    <g>
      {eventsOf(report)
        .filter(({ kind }) => kind === "settled")
        .map(({ audit }) => {
          if (audit === null) return null;
          const x = life.xOf(audit.at);
          const isLeft = x > life.width / 2;
          return (
            <g key={audit.id}>
              <path class="mark" d={`M${x} 38V${height - 4}`} />
              <circle class="ink" cx={x} cy={y + 14} r="5" />
              <text
                class="halo"
                x={isLeft ? x - 12 : x + 12}
                y={y + 18}
                text-anchor={isLeft ? "end" : "start"}
              >
                {audit.actor}: {audit.from} → {audit.to}
              </text>
            </g>
          );
        })}
    </g>
  );
}
