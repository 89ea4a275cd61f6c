import { describe, expect, test } from "vitest";
import { clientPorts } from "../../../test/support/client-ports.ts";
import { parseKey } from "../../latchkey/src/key/parse-key.ts";
import { formatKey, newKey } from "./key.ts";

describe("newKey", () => {
  test("it is a UUIDv7 that begins with its time", () => {
    const key = newKey(clientPorts({ startMs: 0x0123_4567_89ab }));
    expect(key).toMatch(/^01234567-89ab-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u);
    expect(newKey()).toMatch(/^0[0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u);
  });

  test("all random bits are used: keys of one millisecond differ, in every variant", () => {
    const ports = clientPorts();
    const keys = Array.from({ length: 1_000 }, () => newKey(ports));
    expect(new Set(keys).size).toBe(1_000);
    expect(new Set(keys.map((key) => key[19]))).toEqual(new Set(["8", "9", "a", "b"]));
    const versions = { ...ports.random, bytes: (count: number) => new Uint8Array(count).fill(255) };
    expect(newKey({ ...ports, random: versions }).slice(14)).toBe("7fff-bfff-ffffffffffff");
  });
});

describe("formatKey", () => {
  test.each(["0190-plain", 'with "quotes" and \\ back'])(
    "quoted is a String that Latchkey reads back: %s",
    (key) => {
      expect(parseKey([formatKey(key, "quoted")], { syntax: "strict" })).toEqual({ ok: true, key });
    },
  );

  test("bare is the key itself", () => {
    expect(formatKey("order-1", "bare")).toBe("order-1");
    expect(parseKey([formatKey("order-1", "bare")], { syntax: "strict" }).ok).toBe(false);
  });
});
