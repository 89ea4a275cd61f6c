/** A hold leaves no traces on a response, whatever was on it before and whatever a run has done to it. */
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { type BufferedResponse, bufferResponse } from "./buffered-response.ts";
import { hasLines } from "./head.ts";
import { methodNames } from "./method-table.ts";

type Responses = new (req: IncomingMessage) => ServerResponse;

function responseOf(Made: Responses = ServerResponse): ServerResponse {
  return new Made(new IncomingMessage(new Socket()));
}

async function holdOnce(res: ServerResponse, handle: (view: ServerResponse) => unknown): Promise<string> {
  const held: BufferedResponse<ServerResponse> = bufferResponse(res, { limitBytes: 1_000 });
  const reply = await held.run(handle, () => {});
  held.release(reply);
  return Buffer.from(reply.body).toString();
}

/** The covered methods that differ from the prototype's. */
function foreign(res: ServerResponse, prototype: object = ServerResponse.prototype): readonly string[] {
  const names = [...methodNames.usedFirst, ...methodNames.others];
  return names.filter((name) => Reflect.get(res, name) !== Reflect.get(prototype, name));
}

describe("after a hold, a response has its own methods", () => {
  const redefinitions: Record<string, (end: unknown) => PropertyDescriptor> = {
    "read-only": (value) => ({ value, writable: false, configurable: true }),
    "an accessor": (value) => ({ get: () => value, set() {}, configurable: true }),
  };

  test.each(Object.keys(redefinitions))("if a run has made one %s", async (kind) => {
    const res = responseOf();
    const { write } = ServerResponse.prototype;
    const wrapper = function (this: ServerResponse, ...args: unknown[]) {
      return Reflect.apply(write, this, args);
    } as ServerResponse["write"];
    res.write = wrapper;
    const sent = await holdOnce(res, (view) => {
      const { end } = view;
      const own = (...args: unknown[]) => Reflect.apply(end, view, args);
      Object.defineProperty(view, "end", redefinitions[kind]?.(own) ?? {});
      view.end("answer");
    });
    expect([sent, res.write === wrapper, foreign(res)]).toEqual(["answer", true, ["write"]]);
  });

  test.each(["appendHeader", "emit", "removeHeader", "setHeaders", "end", "once"] as const)(
    "where a run has wrapped and unwrapped `%s`, also when it is held again",
    async (name) => {
      const res = responseOf();
      const wrapAndUnwrap = (view: ServerResponse) => {
        const method: unknown = Reflect.get(view, name);
        Reflect.set(view, name, () => {});
        Reflect.set(view, name, method);
      };
      await holdOnce(res, (view) => {
        wrapAndUnwrap(view);
        view.end("one");
      });
      const left = Reflect.get(res, name) as (...args: unknown[]) => unknown;
      const between = (...args: unknown[]) => Reflect.apply(left, res, args);
      Reflect.set(res, name, between);
      const sent = await holdOnce(res, (view) => {
        view.appendHeader("X-A", "1").removeHeader("X-A");
        view.setHeaders(new Map([["X-B", "2"]]));
        res.emit("custom");
        view.end("two");
      });
      res.setHeader("X-C", "3");
      expect([sent, res.getHeader("x-c"), Reflect.get(res, name) === between]).toEqual(["two", "3", true]);
    },
  );

  test("if a mounted app has others, whose prototype is removed again", async () => {
    const mounted: object = Object.create(ServerResponse.prototype, {
      setHeader: {
        value(this: ServerResponse, name: string, value: string) {
          return ServerResponse.prototype.setHeader.call(this, name, `mounted: ${value}`);
        },
        writable: true,
      },
    });
    const res = responseOf();
    Object.setPrototypeOf(res, mounted);
    await holdOnce(res, (view) => void view.end());
    Object.setPrototypeOf(res, Object.create(ServerResponse.prototype));
    res.setHeader("X-A", "1");
    expect(res.getHeader("X-A")).toBe("1");
  });
});

describe("a response is held and given back", () => {
  test("whose class is frozen", async () => {
    class Frozen extends ServerResponse {}
    Frozen.prototype.end = function (this: ServerResponse, ...args: unknown[]) {
      return Reflect.apply(ServerResponse.prototype.end, this, args);
    } as ServerResponse["end"];
    Object.freeze(Frozen.prototype);
    const res = responseOf(Frozen);
    expect(await holdOnce(res, (view) => void view.end("answer"))).toBe("answer");
    expect(foreign(res, Frozen.prototype)).toEqual([]);
  });

  test("whose class has a method behind an accessor", async () => {
    const seen: unknown[] = [];
    class Watched extends ServerResponse {}
    Object.defineProperty(Watched.prototype, "end", {
      configurable: true,
      get: () => ServerResponse.prototype.end,
      set: (value: unknown) => void seen.push(value),
    });
    const res = responseOf(Watched);
    expect(await holdOnce(res, (view) => void view.end("answer"))).toBe("answer");
    expect([seen, foreign(res)]).toEqual([[], []]);
  });

  test.each(["end", "emit"] as const)(
    "that has a fixed place for `%s`, which its class has, too, and a run wraps",
    async (name) => {
      class Own extends ServerResponse {
        override setHeader(header: string, value: number | string | readonly string[]): this {
          return super.setHeader(header, value);
        }
      }
      for (const res of [responseOf(), responseOf(Own)]) {
        const wrapper = (...args: unknown[]) => Reflect.apply(ServerResponse.prototype[name], res, args);
        Object.defineProperty(res, name, { value: wrapper, writable: true, configurable: false });
        const sent = await holdOnce(res, (view) => {
          const method: unknown = Reflect.get(view, name);
          Reflect.set(view, name, (...args: unknown[]) => Reflect.apply(method as () => void, view, args));
          Object.setPrototypeOf(view, Object.create(ServerResponse.prototype));
          view.end("answer");
        });
        expect([sent, Reflect.get(res, name) === wrapper]).toEqual(["answer", true]);
      }
    },
  );

  test("whose status text cannot be set", async () => {
    const res = responseOf();
    const { req } = res;
    Object.defineProperty(res, "statusMessage", { get: () => "Fine", configurable: true });
    expect(await holdOnce(res, (view) => void view.end("answer"))).toBe("answer");
    expect(res.req).toBe(req);
  });
});

test("headers that differ in the case of their names are not the same lines: a replay has the first answer's", () => {
  const res = responseOf();
  res.setHeader("Cache-Control", "no-store");
  const nothing = () => false;
  expect(hasLines(res, [["Cache-Control", "no-store"]], nothing)).toBe(true);
  expect(hasLines(res, [["cache-control", "no-store"]], nothing)).toBe(false);
});
