/** What the pages on adapters say is captured, and what not: each row is served and looked at on the wire. */
import { afterEach, describe, expect, test } from "vitest";
import {
  newKey,
  requestBytes,
  sendBytes,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpConformance } from "../../packages/latchkey-conformance/src/http-conformance.ts";
import { observedRows, provenRows } from "../../scripts/support/captured.ts";
import { apps } from "../http/apps.ts";
import type { Captured, ObservedRow, Seen } from "../registry/captured.ts";
import { frameworks } from "../registry/frameworks.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";
import { memorySubject } from "../support/memory-subject.ts";
import type { MakeListener } from "./handlers.ts";

const rows = Object.keys(observedRows) as ObservedRow[];

/** Whether what a row is about is in the answer. Rows without one are about the status. */
const signs: Readonly<Partial<Record<ObservedRow, (text: string, request: number) => boolean>>> = {
  phrase: (text) => text.startsWith("HTTP/1.1 201 Made\r\n"),
  trailers: (text) => /\r\nx-sum: 1\r\n/iu.test(text),
  hints: (text) => text.startsWith("HTTP/1.1 103 "),
  before: (text, request) => new RegExp(`\r\nx-request: ${request}\r\n`, "iu").test(text),
  twice: (text) => text.includes("one") && !text.includes("two"),
  aside: (text) => text.includes("aside"),
  socket: (text) => text.includes("past the hold"),
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function observe(makeListener: MakeListener, row: ObservedRow): Promise<Seen | null> {
  const service = httpService();
  let starts = 0;
  let requests = 0;
  const parts = { service, row, ran: () => void starts++, nextRequest: () => String(++requests) };
  const listener = await makeListener(parts);
  if (listener === null) return null;
  const { url, close } = await listen(listener);
  closing.push(close);
  const key = newKey();
  const ask = async () => {
    const exchange = sendBytes(url, requestBytes([`Idempotency-Key: ${key}`], ""));
    await exchange.closed;
    return exchange.received().toString("latin1");
  };
  const first = describeFirst(row, await ask(), codesOf(service.reported()));
  return [first, describeRetry(row, await ask(), starts)];
}

function codesOf(errors: readonly unknown[]): string {
  const codes = errors.map((error) => (error instanceof Error && "code" in error ? error.code : "?"));
  return codes.length === 0 ? "" : `, \`${codes.join("`, `")}\``;
}

function describeFirst(row: ObservedRow, text: string, codes: string): string {
  const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gmu)].map(([, status]) => status);
  const status = statuses.at(-1) ?? "none";
  const sign = signs[row];
  if (sign?.(text, 1)) return `${row === "twice" ? "the first one" : "arrives"}${codes}`;
  return sign === undefined || status >= "400" ? `${status}${codes}` : `left out${codes}`;
}

function describeRetry(row: ObservedRow, text: string, starts: number): string {
  if (starts === 2) return "the handler again";
  if (!/\r\nidempotent-replayed: true\r\n/iu.test(text)) return "neither";
  const sign = signs[row];
  if (row === "before") return sign?.(text, 2) ? "the retry's own value" : "left out";
  return sign === undefined || sign(text, 2) ? "the same" : "left out";
}

/** Each way to use a framework that its page describes. */
const described = frameworks.flatMap(({ name, documented, variants }) =>
  Object.entries(variants).flatMap(([variant, { title, captured }]) =>
    captured === undefined ? [] : [{ name, title, variant, captured, documented }],
  ),
);

describe.each(described)("docs/adapters, $title", ({ variant, captured, documented }) => {
  test.each(rows)("a handler that %s", async (row) => {
    const { [variant]: makeListener } = (await documented()).services;
    if (makeListener === undefined) throw new TypeError(`No service shows what ${variant} captures`);
    expect(await observe(makeListener, row)).toEqual((captured as Captured)[row]);
  });
});

describe("what the page lists for every adapter", () => {
  const names: string[] = [];
  const serve = () => Promise.reject(new Error("nothing is run here"));
  httpConformance({ test: (name) => names.push(name), store: memorySubject, serve, seesFieldLines: true });

  test.each(provenRows.flatMap(({ cases }) => cases))("is the suite's case: %s", (name) => {
    expect(names.filter((each) => each.startsWith(`${name} (`))).not.toEqual([]);
  });

  test("is proven on every adapter", () => {
    const served = apps.map(({ name }) => name.toLowerCase()).join("\n");
    for (const { title } of described) expect(served).toContain(title.toLowerCase());
  });
});
