/** What the HTTP suite's apps of all frameworks have in common. */
import type {
  AppUnderTest,
  HandlerAnswer,
  HeaderLookup,
} from "../../packages/latchkey-conformance/src/http-conformance/case.ts";
import type { Listening } from "../support/listen.ts";

/** The suite's app on one framework, in one of the ways in which the framework is used. */
export interface SuiteApp {
  readonly name: string;
  readonly seesFieldLines: boolean;
  /** Whether it stands for its adapter where all variants would take too long. */
  readonly oneOfItsKind: boolean;
  serve<Tx>(app: AppUnderTest<Tx>): Promise<Listening>;
}

/** Whether a path is one of the status resource. */
export function isStatus({ statusPath }: AppUnderTest<never>["settings"], path: string): boolean {
  return statusPath !== undefined && path.startsWith(`${statusPath}/`);
}

/** As frameworks read it from errors that are the client's fault. */
export function statusOf(error: unknown): number {
  return error instanceof Error && "status" in error ? Number(error.status) : 500;
}

/** A header by its name, from Node's headers. */
export function lookup(headers: Readonly<Record<string, string | string[] | undefined>>): HeaderLookup {
  return (name) => {
    const value = headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  };
}

/** For handlers that return a `Response`. */
export function responseOf(
  { status, headers = [], body, error }: HandlerAnswer,
  prepare: (name: string, value: string) => void = () => {},
): Response {
  if (error !== undefined) {
    for (const [name, value] of headers) prepare(name, value);
    throw error;
  }
  const streamed = body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array);
  const content = streamed
    ? ReadableStream.from(body)
    : body === undefined
      ? null
      : Buffer.from(body as string);
  const response = new Response(content, { status });
  for (const [name, value] of headers) response.headers.append(name, value);
  return response;
}
