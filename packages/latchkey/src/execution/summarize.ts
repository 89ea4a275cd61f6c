/** Prepares a request's summary for the store: redacted, bounded, encoded. */
import type { Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { summaryBytes } from "../operations/summary.ts";
import type { Runtime } from "./runtime.ts";
import { codecContext } from "./stored-values.ts";

/** For a new life. Empty if the operation stores none, or it could not be made: no request fails because of it. */
export async function summarized<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  id: string,
): Promise<{ readonly summary?: Uint8Array }> {
  if (submission.summarize === undefined) return {};
  const { key, fingerprint } = submission;
  try {
    const about = { part: "summary", operation: operation.name, tenant: key.tenant } as const;
    const made = submission.summarize();
    const bytes = summaryBytes(runtime.redact === null ? made : runtime.redact(made, about));
    if (bytes === null) return {};
    const context = codecContext(key, id, fingerprint.digest, "summary");
    return { summary: await runtime.codec.encode(bytes, context) };
  } catch (error) {
    runtime.emit({ ...runtime.about(operation.name, key), type: "summary_failed", error });
    return {};
  }
}
