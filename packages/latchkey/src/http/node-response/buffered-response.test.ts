import { ServerResponse } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInThisContext } from "node:vm";
import { afterEach, describe, expect, test } from "vitest";
import { listen } from "../../../../../test/support/listen.ts";
import { answeringMethods } from "./buffered-methods.ts";
import { bufferResponse } from "./buffered-response.ts";
import { methodNames } from "./method-table.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const limitBytes = 1_000;
const report = () => {};

/** Passes a real response to `act`, and returns its result. */
async function withResponse(act: (res: ServerResponse) => unknown): Promise<string> {
  const { url, close } = await listen(async (_req, res) => {
    try {
      const sent = String(await act(res));
      res.end(sent);
    } catch (error) {
      res.end(`failed: ${error}`);
    }
  });
  closing.push(close);
  return (await fetch(url)).text();
}

async function holdOnce(res: ServerResponse, handle: (view: ServerResponse) => unknown) {
  const held = bufferResponse(res, { limitBytes });
  try {
    const reply = await held.run(handle, report);
    return { ...reply, text: Buffer.from(reply.body).toString() };
  } finally {
    held.release();
  }
}

/** Whether V8 keeps an object's properties in known places, which makes reading several times as fast. */
function hasShape(value: object): boolean {
  setFlagsFromString("--allow-natives-syntax");
  try {
    return runInThisContext("(value) => %HasFastProperties(value)")(value);
  } finally {
    setFlagsFromString("--no-allow-natives-syntax");
  }
}

test("every covered method is in the table of methods", () => {
  const { usedFirst, others } = methodNames;
  expect([...usedFirst, ...others].sort()).toEqual([...answeringMethods, "__onFinished"].sort());
});

describe("a held response", () => {
  test("keeps bytes as written, even if their buffer is reused", async () => {
    const sent = await withResponse(async (res) => {
      const buffer = Buffer.alloc(2);
      const { text } = await holdOnce(res, async (view) => {
        for (const letter of ["a", "b", "c"]) {
          buffer.fill(letter);
          await new Promise((resolve) => view.write(buffer, resolve));
        }
        view.end();
      });
      return text;
    });
    expect(sent).toBe("aabbcc");
  });

  test.each(["201", 201.9])("takes status %j as Node does", async (status) => {
    const sent = await withResponse(async (res) => {
      const one = await holdOnce(res, (view) => {
        Reflect.set(view, "statusCode", status);
        view.end();
      });
      const other = await holdOnce(res, (view) => void view.writeHead(status as number).end());
      return JSON.stringify([one.status, other.status]);
    });
    expect(sent).toBe("[201,201]");
  });

  const definitions: Record<string, (end: ServerResponse["end"]) => PropertyDescriptor> = {
    "that is not writable": (value) => ({ value, writable: false, configurable: true }),
    "behind a getter": (value) => ({ get: () => value, configurable: true, enumerable: true }),
    "that is not configurable": (value) => ({ value, writable: true, configurable: false }),
  };

  test.each(Object.keys(definitions))("covers an own method %s, and gives it back", async (name) => {
    let ends = 0;
    const sent = await withResponse(async (res) => {
      const end = function (this: ServerResponse, ...args: unknown[]) {
        ends += 1;
        return Reflect.apply(ServerResponse.prototype.end, this, args);
      } as ServerResponse["end"];
      Object.defineProperty(res, "end", definitions[name]?.(end) ?? {});
      const before = Object.getOwnPropertyDescriptor(res, "end");
      const { text } = await holdOnce(res, (view) => void view.end("held"));
      expect(Object.getOwnPropertyDescriptor(res, "end")).toEqual(before);
      return text;
    });
    expect([sent, ends]).toEqual(["held", 1]);
  });

  const unfit: Record<string, (res: ServerResponse) => void> = {
    "has a fixed method": (res) =>
      void Object.defineProperty(res, "end", { value: res.end, writable: false, configurable: false }),
    "has a getter that throws": (res) =>
      void Object.defineProperty(res, "writeHead", {
        configurable: true,
        get: () => {
          throw new TypeError("not now");
        },
      }),
    "is not extensible": (res) => void Object.preventExtensions(res),
    "is held already": (res) => void bufferResponse(res, { limitBytes }),
  };

  test.each(Object.keys(unfit))("refuses and does not change one that %s", (name) => {
    const res = new ServerResponse({ method: "GET", httpVersionMajor: 1, httpVersionMinor: 1 } as never);
    unfit[name]?.(res);
    const before = [Object.getPrototypeOf(res), Object.getOwnPropertyDescriptors(res)];
    expect(() => bufferResponse(res, { limitBytes })).toThrow(TypeError);
    expect([Object.getPrototypeOf(res), Object.getOwnPropertyDescriptors(res)]).toEqual(before);
  });

  test("is free after the hold, even if other code has kept its prototype", async () => {
    const sent = await withResponse(async (res) => {
      const own = Object.getPrototypeOf(res);
      let kept: object = own;
      await holdOnce(res, (view) => {
        kept = Object.getPrototypeOf(res);
        view.end();
      });
      Object.setPrototypeOf(res, Object.create(kept));
      expect([res.headersSent, res.writableEnded, res.socket === null]).toEqual([false, false, false]);
      res.setHeader("X-A", "1").on("finish", () => {});
      Object.setPrototypeOf(res, kept);
      const { text } = await holdOnce(res, (view) => void view.end("again"));
      expect(Object.getPrototypeOf(res)).toBe(own);
      Object.setPrototypeOf(res, kept);
      return text;
    });
    expect(sent).toBe("again");
  });

  test("treats the prototype of an earlier hold as the one beneath", async () => {
    const sent = await withResponse(async (res) => {
      const own: object = Object.getPrototypeOf(res);
      let kept: object = own;
      await holdOnce(res, (view) => {
        kept = Object.getPrototypeOf(res);
        view.end();
      });
      Object.setPrototypeOf(res, Object.create(own));
      const { text } = await holdOnce(res, (view) => {
        Object.setPrototypeOf(res, kept);
        res.emit("custom");
        view.end("twice");
      });
      expect(Object.getPrototypeOf(res)).toBe(own);
      return text;
    });
    expect(sent).toBe("twice");
  });

  test("keeps its shape, also when its answer is sent", async () => {
    const shapes: boolean[] = [];
    const sent = await withResponse(async (res) => {
      const held = bufferResponse(res, { limitBytes });
      const reply = await held.run((view) => {
        view.writeHead(201, { "X-A": "1" }).end("held");
        shapes.push(hasShape(res));
      }, report);
      held.release(reply);
      shapes.push(hasShape(res));
      res.statusCode = 202;
      return "free";
    });
    expect([sent, ...shapes]).toEqual(["free", true, true]);
  });
});
