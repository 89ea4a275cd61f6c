import fc from "fast-check";
import { expect, test } from "vitest";
import { sortedQuery } from "./query.ts";

test.each([
  ["", []],
  ["b=1&a=2", ["a=2", "b=1"]],
  ["a=2&b=1&a=1", ["a=2", "a=1", "b=1"]],
  ["to=%61lice", ["to=alice"]],
  ["q=%2f%7E%c3%bc", ["q=%2F~%C3%BC"]],
  ["%62=1&a=1", ["a=1", "b=1"]],
  ["a", ["a"]],
  ["a=", ["a="]],
  ["a=1&&b=2", ["", "a=1", "b=2"]],
  ["a=b=c", ["a=b=c"]],
  ["a%3D=1&a=1", ["a=1", "a%3D=1"]],
  ["a=%&b=%g1&c=%4", ["a=%", "b=%g1", "c=%4"]],
  ["a+b=1", ["a+b=1"]],
])("%s gives %j", (query, pairs) => {
  expect(sortedQuery(query)).toEqual(pairs);
});

test.each([
  ["a=1", "a=2"],
  ["a=1&a=2", "a=2&a=1"],
  ["a", "a="],
  ["a=%20", "a=+"],
  ["a=1%26b=2", "a=1&b=2"],
  ["a%3D1", "a=1"],
  ["a=1", "a=1&"],
  ["a=%2541", "a=A"],
])("%s and %s stay different", (left, right) => {
  expect(sortedQuery(left)).not.toEqual(sortedQuery(right));
});

test("the order of different names makes no difference, that of one name does", () => {
  const pair = fc.tuple(
    fc.constantFrom("a", "b", "c", "%C3"),
    fc.string({ unit: fc.constantFrom(..."xy=+") }),
  );
  fc.assert(
    fc.property(fc.array(pair), fc.infiniteStream(fc.nat()), (pairs, stream) => {
      const byName = Map.groupBy(pairs, ([name]): string => name);
      const shuffled: (typeof pairs)[number][] = [];
      for (const names = [...byName.keys()]; names.length > 0; ) {
        const [name = ""] = names.splice((stream.next().value ?? 0) % names.length, 1);
        shuffled.push(...(byName.get(name) ?? []));
      }
      const write = (list: typeof pairs) => list.map(([name, value]) => `${name}=${value}`).join("&");
      expect(sortedQuery(write(shuffled))).toEqual(sortedQuery(write(pairs)));
    }),
  );
});
