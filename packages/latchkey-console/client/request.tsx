/** A short form of the record's request, if the service stores it. */
import type { RecordReport } from "../src/wire.ts";
import { Json } from "./parts.tsx";

export function RequestSummary({ report }: { readonly report: RecordReport }) {
  const { summary } = report;
  if (summary === null) return null;
  return (
    <section class="section">
      <header>
        <h2>First request</h2>
        {"value" in summary && <span class="say">{lineOf(summary.value)}</span>}
      </header>
      <div class="box">
        {"value" in summary ? (
          <pre class="answer">
            <Json value={fieldsOf(summary.value)} />
          </pre>
        ) : (
          <p class="quiet">{summary.unreadable} bytes, which cannot be read with this service's codec.</p>
        )}
      </div>
    </section>
  );
}

/** `POST /payments`; empty if a redaction has changed the summary. */
function lineOf(summary: unknown): string {
  return [memberOf(summary, "method"), memberOf(summary, "path")]
    .filter((one) => typeof one === "string")
    .join(" ");
}

function fieldsOf(summary: unknown): unknown {
  return memberOf(summary, "fields") ?? summary;
}

function memberOf(summary: unknown, name: string): unknown {
  return typeof summary === "object" && summary !== null ? Reflect.get(summary, name) : undefined;
}
