import { expect, test } from "vitest";
import { ranTests, renderChecklist, testsOf } from "./write-checklist.ts";

const results = {
  testResults: [
    {
      name: "/root/a.test.ts",
      assertionResults: [
        { fullName: "group holds, 1", status: "passed" },
        { fullName: "group holds, 2", status: "failed" },
        { fullName: "group suite: case", status: "passed" },
        { fullName: "group elsewhere", status: "skipped" },
      ],
    },
  ],
};
const ran = ranTests(results, "/root");
const facts = { date: "2026-11-22T00:00:00.000Z", commit: "0123456789abcdef", node: "24" };
const threat = (file: string, title: string) => ({
  threat: "A threat",
  control: "",
  shownBy: [{ file, title }],
});

test("a threat is checked if all its tests ran and passed", () => {
  const page = renderChecklist(
    [threat("a.test.ts", "holds, 1"), threat("a.test.ts", "holds"), threat("a.test.ts", "nowhere")],
    ran,
    facts,
  );
  expect(page).toContain("- [x] A threat: 1 of 1 tests passed");
  expect(page).toContain("- [ ] A threat: 1 of 2 tests passed");
  expect(page).toContain("- [ ] A threat: 0 of 0 tests passed");
  expect(page).toContain("2 of 4 tests passed, [the others](#tests-that-did-not-pass) did not.");
});

test("what did not pass is named", () => {
  const page = renderChecklist([], ran, facts);
  expect(page).toContain(
    '- failed: "group holds, 2" (`a.test.ts`)\n- not run: "group elsewhere" (`a.test.ts`)\n',
  );
  const passed = renderChecklist(
    [],
    ran.filter(({ outcome }) => outcome === "passed"),
    facts,
  );
  expect(passed).toContain("2 of 2 tests passed.");
  expect(passed).not.toContain("did not");
});

test("cases of a suite are found where it ran; values inserted into a title are ignored", () => {
  expect(testsOf({ file: "src/cases.ts", title: "suite: case" }, ran)).toHaveLength(1);
  expect(testsOf({ file: "b.test.ts", title: "holds" }, ran)).toHaveLength(0);
  expect(testsOf({ file: "a.test.ts", title: "holds, %s" }, ran)).toHaveLength(2);
});
