/** Facts of one kind: the first ten, the last twenty, and how many were between them. */
import type { RecordReport } from "../src/wire.ts";
import { countText, timeText } from "./format.ts";

type Kept = NonNullable<RecordReport["repeats"]>;
type Fact = Kept["facts"][number];

interface KeptProps {
  readonly title: string;
  readonly kept: Kept | null;
  readonly now: string;
}

export function Kept({ title, kept, now }: KeptProps) {
  if (kept === null) return null;
  return (
    <section class="section">
      <header>
        <h2>{title}</h2>
        <span class="say">{countText(kept.count)}</span>
      </header>
      <table class="table kept">
        <tbody>
          {rowsOf(kept).map((row, place) =>
            row === "gap" ? (
              <tr key="gap">
                <td />
                <td class="faint">{countText(kept.missing)} more, not stored individually</td>
              </tr>
            ) : (
              <tr key={place}>
                <td class="nowrap faint">{timeText(row.first.at, now)}</td>
                <td>
                  {row.first.text}
                  {row.count > 1 && (
                    <span class="quiet">
                      {" "}
                      {countText(row.count)} times, until {timeText(row.lastAt, now)}
                    </span>
                  )}
                  {row.first.traceId !== null && (
                    <span class="quiet small">
                      {" "}
                      trace <code title={row.first.traceId}>{row.first.traceId.slice(0, 8)}…</code>
                    </span>
                  )}
                </td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </section>
  );
}

interface Run {
  readonly first: Fact;
  readonly lastAt: string;
  readonly count: number;
}

/** Several equal facts in succession are shown as one row. */
function rowsOf({ facts, missing }: Kept): readonly (Run | "gap")[] {
  // Facts that are not stored individually came before the last twenty.
  const gapBefore = missing > 0 ? facts.length - 20 : -1;
  const rows: (Run | "gap")[] = [];
  for (const [place, fact] of facts.entries()) {
    if (place === gapBefore) rows.push("gap");
    const last = rows.at(-1);
    const isSame =
      typeof last === "object" &&
      last.first.text === fact.text &&
      last.first.traceId === null &&
      fact.traceId === null;
    if (isSame) rows[rows.length - 1] = { ...last, lastAt: fact.at, count: last.count + 1 };
    else rows.push({ first: fact, lastAt: fact.at, count: 1 });
  }
  return rows;
}
