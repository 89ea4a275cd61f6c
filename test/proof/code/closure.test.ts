import { execFileSync } from "node:child_process";
import { globSync } from "node:fs";
import { join, posix } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { changesSince, noCode, onlyFor, withClosure } from "./changes.ts";
import { type Closure, closuresOf, codeOf } from "./closure.ts";
import { type Files, filesBelow } from "./files.ts";

const root = join(import.meta.dirname, "../../..");
const disk = filesBelow(root);
const source = "packages/latchkey/src";
const before = closuresOf(disk);

/** The working tree with other texts; null: the file is gone. */
function over(changed: Readonly<Record<string, string | null>>): Files {
  return {
    read: (path) => (path in changed ? (changed[path] ?? null) : disk.read(path)),
    names: (folder) => {
      const added = Object.keys(changed).filter((path) => posix.dirname(path) === folder);
      const names = new Set([...disk.names(folder), ...added.map((path) => posix.basename(path))]);
      return [...names].filter((name) => changed[`${folder}/${name}`] !== null).sort();
    },
  };
}

function edited(path: string, edit: (text: string) => string): Files {
  const text = disk.read(path) ?? "";
  const changed = edit(text);
  expect(changed, path).not.toBe(text);
  return over({ [path]: changed });
}

/** Moves a file, and changes the imports of it and in it as an editor does. */
function moved(from: string, to: string, { library, harness }: Closure): Files {
  const relink = (text: string, oldPath: string, newPath: string) =>
    text.replaceAll(/(["'])(\.{1,2}\/[^"']+\.ts)\1/g, (whole, quote: string, path: string) => {
      const target = posix.join(posix.dirname(oldPath), path);
      if (target !== from && oldPath === newPath) return whole;
      const link = posix.relative(posix.dirname(newPath), target === from ? to : target);
      return `${quote}${link.startsWith(".") ? link : `./${link}`}${quote}`;
    });
  const linked = [...library, ...harness].map(({ path }) => {
    const newPath = path === from ? to : path;
    return [newPath, relink(disk.read(path) ?? "", path, newPath)] as const;
  });
  return over({ ...Object.fromEntries(linked), [from]: null });
}

test("a renamed, a moved, a commented, a retyped and a reformatted file is the same code", () => {
  const settle = `${source}/execution/settle.ts`;
  const closure = before("P1");
  const code = codeOf(closure);
  for (const to of [`${source}/zettle.ts`, `${source}/attempt/deeper/settled.ts`]) {
    expect(codeOf(closuresOf(moved(settle, to, closure))("P1")), to).toEqual(code);
  }
  const judge = "test/proof/p1-schedules/judge.ts";
  const away = "test/proof/p1-schedules/judges/first.ts";
  expect(codeOf(closuresOf(moved(judge, away, closure))("P1"))).toEqual(code);
  const edits: readonly ((text: string) => string)[] = [
    (text) => `/* why */ // and how\n${text}\n/** no more */\n`,
    (text) => `import type { Nothing } from "./nothing.ts";\n${text}\nexport type More = Nothing | string;\n`,
    (text) => `${text}\ninterface Unused { readonly a: number }\n`,
    (text) => text.replaceAll(/\n +/g, "\n    ").replaceAll("\n\n", "\n\n\n"),
  ];
  for (const edit of edits) {
    expect(codeOf(closuresOf(edited(settle, edit))("P1")), String(edit)).toEqual(code);
    expect(codeOf(closuresOf(edited(judge, edit))("P1")), String(edit)).toEqual(code);
  }
});

test("comments and layout of SQL are no change, and a statement is one", () => {
  const migration = `${source}/../sql/postgres/0001_records.sql`.replace("src/../", "");
  const { library } = codeOf(before("P4"));
  const commented = edited(migration, (text) => `-- why\n\n${text}\n  -- done\n`);
  expect(codeOf(closuresOf(commented)("P4")).library).toBe(library);
  const other = edited(migration, (text) => text.replace("not null", ""));
  expect(codeOf(closuresOf(other)("P4")).library).not.toBe(library);
});

const guards = [
  "execution/settle.ts",
  "latchkey.ts",
  "operations/operation.ts",
  "fingerprint/fingerprint.ts",
];

test.each(guards)("a negated guard in %s is other code for every tier that loads it", (name) => {
  const path = `${source}/${name}`;
  const after = closuresOf(edited(path, (text) => text.replace(/\bif \((.*)\) /, "if (!($1)) ")));
  for (const tier of ["P1", "P2", "P3", "P4", "P5", "P6", "P7"] as const) {
    const old = before(tier);
    expect(
      old.library.map((module) => module.path),
      tier,
    ).toContain(path);
    expect(codeOf(after(tier)).library, tier).not.toBe(codeOf(old).library);
    expect(codeOf(after(tier)).harness, tier).toBe(codeOf(old).harness);
  }
});

const judges = {
  P0: "test/proof/p0-model/check-model.ts",
  P1: "test/proof/p1-schedules/judge.ts",
  P2: "test/proof/p2-random/linearizable.ts",
  P3: "test/proof/p3-stores/lane.ts",
  P4: "test/proof/p4-statements/linear.ts",
  P5: "test/proof/p5-kills/judge.ts",
  P6: "test/proof/p6-failover/judge.ts",
  P7: "test/proof/p7-planted/catch-bug.ts",
} as const;

test.each(Object.entries(judges))(
  "a negated guard in the judge of %s changes its harness alone",
  (tier, path) => {
    const id = tier as keyof typeof judges;
    const after = closuresOf(edited(path, (text) => text.replace(/\bif \((.*)\) /, "if (!($1)) ")))(id);
    expect(codeOf(after).harness).not.toBe(codeOf(before(id)).harness);
    expect(codeOf(after).library).toBe(codeOf(before(id)).library);
  },
);

test("the order of migrations, the model, and what processes and threads load are part of it", () => {
  const paths = (tier: keyof typeof judges) => {
    const { library, harness } = before(tier);
    return [...library, ...harness].map(({ path }) => path);
  };
  expect(paths("P0")).toContain("test/proof/p0-model/protocol.pml");
  expect(paths("P1")).toContain("test/proof/p1-schedules/explore-worker-process.ts");
  expect(paths("P5")).toContain("test/proof/p5-kills/victim-process.ts");
  expect(paths("P6")).toContain("test/proof/p6-failover/client-process.ts");
  expect(paths("P6")).toContain(`${source}/http/node.ts`);
  expect(paths("P7")).toContain(`${source}/engine/decide.test.ts`);
  expect(paths("P7")).not.toContain("test/proof/ledger.ts");
  expect(before("P0").library).toEqual([]);
  const [first, second] = ["0001_records.sql", "0002_messages.sql"].map(
    (name) => `packages/latchkey/sql/postgres/${name}`,
  );
  const swapped = over({
    [String(first)]: disk.read(String(second)),
    [String(second)]: disk.read(String(first)),
  });
  expect(codeOf(closuresOf(swapped)("P4")).library).not.toBe(codeOf(before("P4")).library);
});

test("which module stands behind an import is part of it, also where imports go in circles", () => {
  const base = { "packages/latchkey/package.json": `{ "name": "latchkey", "exports": {} }` };
  const tree = (texts: Readonly<Record<string, string>>): Files => ({
    read: (path) => ({ ...base, ...texts })[path] ?? null,
    names: () => [],
  });
  const entry = (first: string, second: string) =>
    `import { a } from "../../../packages/latchkey/${first}";\nimport { a as b } from "../../../packages/latchkey/${second}";\nexport const c = a - b;`;
  const one = `import { a as other } from "./two.ts";\nexport const a = () => other;`;
  const two = `import { a as other } from "./one.ts";\nexport const a = () => [other];`;
  const codeWith = (text: string, names: readonly [string, string]) =>
    codeOf(
      closuresOf(
        tree({
          "test/proof/p0-model/tier.ts": text,
          [`packages/latchkey/${names[0]}`]: one.replace("./two.ts", `./${names[1]}`),
          [`packages/latchkey/${names[1]}`]: two.replace("./one.ts", `./${names[0]}`),
        }),
      )("P0"),
    );
  const code = codeWith(entry("one.ts", "two.ts"), ["one.ts", "two.ts"]);
  expect(codeWith(entry("z.ts", "b.ts"), ["z.ts", "b.ts"])).toEqual(code);
  const rewired = codeOf(
    closuresOf(
      tree({
        "test/proof/p0-model/tier.ts": entry("one.ts", "two.ts"),
        "packages/latchkey/one.ts": one.replace("./two.ts", "./one.ts"),
        "packages/latchkey/two.ts": two,
      }),
    )("P0"),
  );
  expect(rewired.library).not.toBe(code.library);
});

test("lines changed since are counted without the history", () => {
  const settle = `${source}/execution/settle.ts`;
  const { library } = before("P1");
  const digest = codeOf(before("P1")).library;
  const book = withClosure(noCode, library);
  expect(changesSince(book, digest, library)).toEqual({ added: 0, removed: 0 });
  const longer = closuresOf(edited(settle, (text) => `${text}\nconsole.log(1);\nconsole.log(2);\n`))("P1");
  expect(changesSince(book, digest, longer.library)).toEqual({ added: 2, removed: 0 });
  expect(changesSince(withClosure(book, longer.library), codeOf(longer).library, library)).toEqual({
    added: 0,
    removed: 2,
  });
  expect(changesSince(book, "gone", library)).toBeNull();
  expect(onlyFor(withClosure(book, longer.library), new Set([digest]))).toEqual(
    onlyFor(book, new Set([digest])),
  );
});

test("everything that Node loads with the tiers is in a closure, and every program of a tier in its own", () => {
  const program = `
    const { registerHooks } = await import("node:module");
    const loaded = [];
    registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
    await import("./test/proof/tiers.ts");
    console.log(JSON.stringify(loaded));
    process.exit(0);`;
  const flags = ["--conditions=latchkey-source", "--input-type=module", "--eval", program];
  const loaded = JSON.parse(
    execFileSync(process.execPath, flags, { cwd: root, encoding: "utf8" }),
  ) as string[];
  const repository = pathToFileURL(`${root}/`).href;
  const own = loaded
    .filter((url) => url.startsWith(repository) && !url.includes("/node_modules/"))
    .map((url) => url.slice(repository.length));
  const { library, harness } = before("P7");
  const known = new Set([...library, ...harness].map(({ path }) => path));
  expect(own.length).toBeGreaterThan(300);
  expect(own.filter((path) => !known.has(path))).toEqual([]);
  for (const path of globSync("test/proof/p*/*-process.ts", { cwd: root })) {
    expect(known, path).toContain(path);
  }
});
