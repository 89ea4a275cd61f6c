import { expect, test } from "vitest";
import { isPlaceholderKey } from "./parse-key.ts";

test.each([
  "undefined",
  "Undefined",
  "null",
  "NULL",
  "NaN",
  "None",
  "nil",
  "(null)",
  "<nil>",
  "[object Object]",
  "[object Promise]",
  " undefined ",
  "{{$guid}}",
  `\${uuid}`,
])("%s stands for no key", (key) => {
  expect(isPlaceholderKey(key)).toBe(true);
});

test.each([
  "nullable",
  "order-null",
  "undefined-1",
  "nan0",
  "nonesuch",
  "nile",
  "0",
  "false",
  "{}",
  "00000000-0000-0000-0000-000000000000",
])("%s is a key", (key) => {
  expect(isPlaceholderKey(key)).toBe(false);
});
