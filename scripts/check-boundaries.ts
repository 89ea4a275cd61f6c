/**
 * Checks which file of the library may import which, and which may touch the process's clock and randomness.
 * The rules are the data below; import cycles, barrels and `node:` prefixes are Biome's part.
 */
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";

import { type Problem, readFiles, report, repositoryRoot } from "./support/repository.ts";
import { type ModuleImport, type ModuleSyntax, readSyntax } from "./support/syntax.ts";

/** Paths are relative to `packages/latchkey/src`; a path that ends in `/` means everything below it. */
export interface BoundaryRules {
  /**
   * The library's floors, top to bottom. A module imports from its own floor and those below it, types included. A module
   * without a floor is a problem, so that every new folder gets one.
   */
  readonly floors: readonly (readonly string[])[];
  /** Folders that may import only their own files and the ones listed here. */
  readonly closed: readonly {
    readonly folder: string;
    /** May be imported with `import type`. */
    readonly types: readonly string[];
    /** Pure helpers that may be imported for use. */
    readonly values?: readonly string[];
    readonly builtins: readonly string[];
  }[];
  /** Folders of one contract and its adapters. */
  readonly families: readonly Family[];
  /** Modules outside a family that may import its adapters. */
  readonly assemblers: readonly string[];
  /** Imports that break a rule, each with the reason. */
  readonly exceptions: readonly { readonly from: string; readonly to: string; readonly reason: string }[];
  /** The process's clock, timers and randomness, and the modules that may use them. */
  readonly ports: {
    readonly files: readonly string[];
    readonly names: readonly string[];
    readonly emptyCalls: readonly string[];
    readonly builtins: readonly string[];
  };
}

export interface Family {
  readonly folder: string;
  /** Public files that are no adapters. */
  readonly core: readonly string[];
  /** Names of the folders in it that all adapters may use. Each other folder is the adapter's of that name. */
  readonly shared: readonly string[];
  /** Adapters that use files of another adapter. */
  readonly uses: readonly {
    readonly adapters: readonly string[];
    readonly of: readonly string[];
    readonly reason: string;
  }[];
}

export const rules: BoundaryRules = {
  floors: [
    ["testing/", "internal/"],
    ["cli/"],
    ["index.ts", "config.ts"],
    ["operator/"],
    ["http/", "messages/", "tools/", "webhooks/"],
    ["latchkey.ts"],
    ["workers/"],
    ["outbox/"],
    ["execution/", "routing/"],
    ["operations/", "caching/"],
    ["effects/"],
    ["telemetry/"],
    ["stores/"],
    ["sql/"],
    ["time/", "key/", "codec.ts", "encryption.ts"],
    [
      "engine/",
      "fingerprint/",
      "ports.ts",
      "errors.ts",
      "known-options.ts",
      "node-version.ts",
      "plain-text.ts",
    ],
  ],
  closed: [
    { folder: "engine/", types: [], builtins: [] },
    {
      folder: "key/",
      types: ["engine/"],
      values: ["fingerprint/characters.ts", "fingerprint/length-prefixed.ts"],
      builtins: ["node:crypto"],
    },
    { folder: "fingerprint/", types: ["engine/"], builtins: ["node:crypto"] },
    { folder: "operations/policies/", types: ["engine/"], builtins: ["node:crypto"] },
  ],
  families: [
    {
      folder: "stores/",
      core: ["stores/store.ts"],
      shared: [],
      uses: [
        { adapters: ["pglite"], of: ["stores/postgres/"], reason: "PGlite is Postgres" },
        {
          adapters: ["archive"],
          of: ["stores/postgres/sql/texts.ts", "stores/postgres/statement.ts", "stores/postgres/template.ts"],
          reason: "an archive is a table of Postgres",
        },
      ],
    },
    {
      folder: "sql/",
      core: ["sql/transaction.ts"],
      shared: ["pg-clients"],
      uses: [
        {
          adapters: ["drizzle", "knex", "kysely", "mikro-orm", "prisma", "sequelize", "typeorm"],
          of: ["sql/pg/bridge.ts", "sql/pg/client.ts", "sql/pg/options.ts"],
          reason: "their connections are `pg` clients",
        },
        {
          adapters: ["drizzle", "kysely"],
          of: ["sql/pglite/bridge.ts", "sql/pglite/database.ts"],
          reason: "they also work over PGlite",
        },
        {
          adapters: ["mikro-orm"],
          of: ["sql/kysely/connection.ts", "sql/kysely/session.ts"],
          reason: "MikroORM sends its statements through Kysely",
        },
        {
          adapters: ["postgres-js"],
          of: [
            "sql/pg/client.ts",
            "sql/pg/control-statements.ts",
            "sql/pg/options.ts",
            "sql/pg/pool-share.ts",
            "sql/pg/wire-messages.ts",
          ],
          reason: "its server and its options are the same",
        },
        {
          adapters: ["pglite"],
          of: ["sql/pg/wire-messages.ts"],
          reason: "its rows are read in the same way",
        },
      ],
    },
    {
      folder: "http/",
      core: [
        "http/protocol/exchange.ts",
        "http/protocol/problem.ts",
        "http/protocol/problem-types.ts",
        "http/protocol/capture.ts",
      ],
      shared: ["node-response", "protocol", "shared"],
      uses: [
        { adapters: ["hono"], of: ["http/fetch/fetch-messages.ts"], reason: "Hono's messages are Fetch's" },
        {
          adapters: ["nest"],
          of: ["http/fastify/fastify-reply.ts", "http/fastify/fastify-types.ts"],
          reason: "Nest runs on Fastify, too",
        },
        { adapters: ["nest"], of: ["http/openapi/"], reason: "it describes its routes itself" },
      ],
    },
    { folder: "messages/", core: ["messages/broker.ts", "messages/inbox.ts"], shared: [], uses: [] },
  ],
  assemblers: ["testing/", "cli/"],
  exceptions: [],
  ports: {
    files: ["ports.ts", "cli/"],
    names: [
      "AbortSignal.timeout",
      "Date.now",
      "Math.random",
      "crypto.getRandomValues",
      "crypto.randomUUID",
      "getRandomValues",
      "performance.now",
      "performance.timeOrigin",
      "process.hrtime",
      "process.uptime",
      "randomBytes",
      "randomInt",
      "randomUUID",
      "setImmediate",
      "setInterval",
      "setTimeout",
    ],
    emptyCalls: ["Date"],
    builtins: ["node:timers", "node:timers/promises", "node:perf_hooks"],
  },
};

/**
 * Finds what breaks `rules`.
 *
 * @param sources texts of the library's modules by path below `src`, without tests
 * @param publicFiles those of them that `package.json` exports
 */
export function findBoundaryProblems(
  sources: ReadonlyMap<string, string>,
  publicFiles: ReadonlySet<string>,
  boundaries: BoundaryRules = rules,
): readonly Problem[] {
  return [...sources].flatMap(([from, text]) => {
    const syntax = readSyntax(text);
    const imports = syntax.imports.flatMap((item) =>
      importProblems(from, item, publicFiles, boundaries).map((message) => ({
        where: `${from}:${item.line}`,
        message,
      })),
    );
    return [...placeProblems(from, boundaries), ...imports, ...portProblems(from, syntax, boundaries)];
  });
}

function importProblems(
  from: string,
  item: ModuleImport,
  publicFiles: ReadonlySet<string>,
  boundaries: BoundaryRules,
): readonly string[] {
  const to = item.specifier.startsWith(".")
    ? posix.join(posix.dirname(from), item.specifier)
    : item.specifier;
  if (boundaries.exceptions.some((exception) => exception.from === from && exception.to === to)) return [];
  if (to.startsWith("..")) return [`imports ${to}, which is outside src`];
  if (!item.specifier.startsWith(".")) return packageProblems(from, to, boundaries);
  const upwards = floorProblems(from, to, boundaries);
  if (upwards.length > 0) return upwards;
  return [
    ...closedProblems(from, to, item.typeOnly, boundaries),
    ...adapterProblems(from, to, publicFiles, boundaries),
    ...siblingProblems(from, to, boundaries),
  ];
}

function floorProblems(from: string, to: string, { floors }: BoundaryRules): readonly string[] {
  const [own, other] = [floorOf(from, floors), floorOf(to, floors)];
  if (other === -1) return [`imports ${to}, which belongs to no floor`];
  return other < own ? [`imports ${to}, which is on a floor above it`] : [];
}

function placeProblems(path: string, { floors }: BoundaryRules): readonly Problem[] {
  if (floorOf(path, floors) !== -1) return [];
  return [{ where: `${path}:1`, message: "belongs to no floor; add its folder to `floors`" }];
}

function floorOf(path: string, floors: BoundaryRules["floors"]): number {
  return floors.findIndex((floor) => isOneOf(path, floor));
}

function packageProblems(from: string, specifier: string, boundaries: BoundaryRules): readonly string[] {
  if (!specifier.startsWith("node:")) {
    return [
      `imports the package ${specifier}; type what is needed of it structurally (users may not have it)`,
    ];
  }
  const closed = boundaries.closed.find(({ folder }) => isWithin(from, folder));
  if (closed && !closed.builtins.includes(specifier))
    return [`imports ${specifier}; ${closed.folder} may not`];
  if (boundaries.ports.builtins.includes(specifier) && !isOneOf(from, boundaries.ports.files)) {
    return [`imports ${specifier}; use the ports (Clock, Random) instead`];
  }
  return [];
}

function closedProblems(
  from: string,
  to: string,
  typeOnly: boolean,
  boundaries: BoundaryRules,
): readonly string[] {
  const closed = boundaries.closed.find(({ folder }) => isWithin(from, folder));
  if (!closed || isWithin(to, closed.folder) || isOneOf(to, closed.values ?? [])) return [];
  if (!isOneOf(to, closed.types)) return [`imports ${to}; ${closed.folder} may not`];
  return typeOnly ? [] : [`imports values of ${to}; ${closed.folder} may import only its types`];
}

function adapterProblems(
  from: string,
  to: string,
  publicFiles: ReadonlySet<string>,
  boundaries: BoundaryRules,
): readonly string[] {
  const family = boundaries.families.find(({ folder }) => isWithin(to, folder));
  if (!family || family.core.includes(to) || !publicFiles.has(to)) return [];
  if (isOneOf(from, boundaries.assemblers)) return [];
  const shared = `move what both need into a file of ${family.folder} that is not exported`;
  if (!isWithin(from, family.folder))
    return [`imports the adapter ${to}; import the contract ${family.core[0]}`];
  return [`imports the sibling adapter ${to}; ${shared}`];
}

function siblingProblems(from: string, to: string, { families }: BoundaryRules): readonly string[] {
  const family = families.find(({ folder }) => isWithin(from, folder) && isWithin(to, folder));
  if (family === undefined) return [];
  const { folder, shared, uses } = family;
  const [owner, ...below] = to.slice(folder.length).split("/");
  if (owner === undefined || below.length === 0 || shared.includes(owner)) return [];
  const user = from.slice(folder.length).split("/")[0]?.replace(/\.ts$/, "") ?? "";
  const isNamed = uses.some(({ adapters, of }) => adapters.includes(user) && isOneOf(to, of));
  if (user === owner || isNamed) return [];
  return [
    `imports ${to}, which belongs to the adapter ${owner}; move what both need into a folder that is \`shared\``,
  ];
}

/** Uses of the process's clock, timers and randomness in modules of another package, by path below its `src`. */
export function findPortProblems(
  sources: ReadonlyMap<string, string>,
  boundaries: BoundaryRules = { ...rules, ports: { ...rules.ports, files: [] } },
): readonly Problem[] {
  return [...sources].flatMap(([from, text]) => portProblems(from, readSyntax(text), boundaries));
}

function portProblems(from: string, syntax: ModuleSyntax, boundaries: BoundaryRules): readonly Problem[] {
  if (isOneOf(from, boundaries.ports.files)) return [];
  const uses = [
    ...syntax.reads.filter(({ name }) => boundaries.ports.names.includes(name)),
    ...syntax.emptyCalls.filter(({ name }) => boundaries.ports.emptyCalls.includes(name)),
  ];
  const byPlace = new Map(uses.map((use) => [`${use.line} ${use.name}`, use]));
  return [...byPlace.values()].map(({ name, line }) => ({
    where: `${from}:${line}`,
    message: `uses ${name}; only ports.ts touches the clock, timers and randomness: use Clock or Random`,
  }));
}

function isWithin(path: string, target: string): boolean {
  return target.endsWith("/") ? path.startsWith(target) : path === target;
}

function isOneOf(path: string, targets: readonly string[]): boolean {
  return targets.some((target) => isWithin(path, target));
}

/** Reads the files that `package.json` of the library exports, by path below `src`. */
export function readPublicFiles(packageFolder: string): ReadonlySet<string> {
  const manifest: { exports?: Record<string, { "latchkey-source"?: string }> } = JSON.parse(
    readFileSync(join(packageFolder, "package.json"), "utf8"),
  );
  const sources = Object.values(manifest.exports ?? {}).map((row) => row["latchkey-source"] ?? "");
  return new Set(sources.map((source) => source.replace(/^\.\/src\//, "")));
}

function sourcesOf(packagePath: string): ReadonlyMap<string, string> {
  const all = readFiles(join(repositoryRoot, packagePath, "src"), "**/*.ts");
  return new Map([...all].filter(([path]) => !path.endsWith(".test.ts")));
}

function inFolder(folder: string, problems: readonly Problem[]): readonly Problem[] {
  return problems.map(({ where, message }) => ({ where: `${folder}/${where}`, message }));
}

if (import.meta.main) {
  const packageFolder = join(repositoryRoot, "packages/latchkey");
  const sources = sourcesOf("packages/latchkey");
  const problems = findBoundaryProblems(sources, readPublicFiles(packageFolder));
  const located = [
    ...inFolder("packages/latchkey/src", problems),
    ...inFolder("packages/latchkey-console/src", findPortProblems(sourcesOf("packages/latchkey-console"))),
    ...inFolder(
      "packages/latchkey-client/src",
      findPortProblems(sourcesOf("packages/latchkey-client"), rules),
    ),
    ...inFolder("packages/latchkey-probe/src", findPortProblems(sourcesOf("packages/latchkey-probe"), rules)),
  ];
  report("boundaries", located, `${sources.size} modules of packages/latchkey/src`);
}
