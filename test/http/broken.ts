/** Adapters that are wrong in one thing each, and the proof that the HTTP suite notices. */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import type { MemoryTransaction } from "../../packages/latchkey/src/stores/memory.ts";
import type { AppUnderTest } from "../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { httpConformance } from "../../packages/latchkey-conformance/src/http-conformance.ts";
import { expressListener } from "../registry/frameworks/express/suite.ts";
import { listen } from "../support/listen.ts";
import { memorySubject } from "../support/memory-subject.ts";

export type App = AppUnderTest<MemoryTransaction>;

export interface Broken {
  readonly what: string;
  /** A case that must fail; the beginning of its name. */
  readonly failing: string;
  readonly app?: (app: App) => App;
  readonly request?: (req: IncomingMessage) => void;
  /** Called before the app sees the response. */
  readonly response?: (res: ServerResponse) => void;
  readonly mounts?: boolean;
  /** Takes the place of the whole adapter. */
  readonly listener?: (app: App) => RequestListener;
}

export function rewriteHeader(
  name: string,
  rewrite: (value: unknown) => unknown,
): (res: ServerResponse) => void {
  return (res) => {
    const set = res.setHeader;
    res.setHeader = (given, value) =>
      set.call(res, given, (given.toLowerCase() === name ? rewrite(value) : value) as string);
  };
}

export function dropHeader(res: ServerResponse, dropped: string): void {
  const { setHeader } = res;
  res.setHeader = (name, value) => (name.toLowerCase() === dropped ? res : setHeader.call(res, name, value));
}

export function rewriteRawHeaders(rewrite: (lines: readonly string[]) => readonly string[]) {
  return (req: IncomingMessage) => {
    const { rawHeaders } = req;
    const isKey = (index: number) => rawHeaders[index - (index % 2)]?.toLowerCase() === "idempotency-key";
    const lines = rawHeaders.filter((_, index) => index % 2 === 1 && isKey(index));
    if (lines.length === 0) return;
    const others = rawHeaders.filter((_, index) => !isKey(index));
    req.rawHeaders = [...others, ...rewrite(lines).flatMap((line) => ["Idempotency-Key", line])];
    delete req.headers["idempotency-key"];
  };
}

function listenerOf(broken: Broken, given: App): RequestListener {
  const app = broken.app?.(given) ?? given;
  const listener = broken.listener?.(app) ?? expressListener(app);
  return (req, res) => {
    broken.request?.(req);
    broken.response?.(res);
    return listener(req, res);
  };
}

/** Registers one test for each: a case that is named for it must fail. */
export function expectNoticed(brokenOnes: readonly Broken[]): void {
  describe("the HTTP suite notices an adapter that", () => {
    test.each(brokenOnes.map((broken) => [broken.what, broken] as const))("%s", async (_what, broken) => {
      const matching: [name: string, body: () => Promise<void>][] = [];
      httpConformance<MemoryTransaction>({
        test: (name, body) => {
          if (name.startsWith(broken.failing)) matching.push([name, body]);
        },
        seesFieldLines: true,
        mounts: broken.mounts ?? false,
        store: memorySubject,
        serve: async (app) => listen(listenerOf(broken, app)),
      });
      expect(matching.length).toBeGreaterThan(0);
      const failed: string[] = [];
      for (const [name, body] of matching) await body().catch(() => failed.push(name));
      expect(failed.length, `"${broken.failing}" fails`).toBeGreaterThan(0);
    });
  });
}
