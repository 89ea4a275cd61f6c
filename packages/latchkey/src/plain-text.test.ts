import { expect, test } from "vitest";
import { encodeJson } from "./execution/stored-values.ts";
import { plainLines, plainText } from "./plain-text.ts";
import { withServersWords } from "./sql/sql-errors.ts";
import { storeErrorOf } from "./stores/redis/certainty.ts";

const hostile = "\u001b[2J\u009b1m\u202e\u2028\u0000\r\nforged \u{e0001}\ud800";
const plain = "\\u001b[2J\\u009b1m\\u202e\\u2028\\u0000\\u000d\\u000aforged \\u{e0001}\\ud800";

test("what could steer a terminal or forge a line is written as an escape; other text stays", () => {
  expect(plainText(hostile)).toBe(plain);
  expect(plainText("Müller, 東京, 👍 <b>")).toBe("Müller, 東京, 👍 <b>");
});

test("lines keep their ends, and JSON its meaning", () => {
  const text = JSON.stringify({ note: hostile, list: [1] }, null, 2);
  expect(JSON.parse(plainLines(text))).toEqual({ note: hostile, list: [1] });
  expect(plainLines("a\n\u001bb")).toBe("a\n\\u001bb");
});

test.each([
  ["Redis", () => storeErrorOf(new Error(`ERR ${hostile}`)).message],
  [
    "Postgres",
    () => withServersWords("refused", Object.assign(new Error(`role ${hostile}`), { code: "42501" })),
  ],
  [
    "a value's own toJSON",
    () => {
      const value = {
        toJSON() {
          throw new Error(hostile);
        },
      };
      try {
        encodeJson("The input", value);
      } catch (error) {
        return String(error);
      }
      return "";
    },
  ],
])("an error that quotes %s is plain", (_what, message) => {
  expect(message()).toContain(plain);
});
