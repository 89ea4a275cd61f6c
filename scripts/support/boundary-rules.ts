/** Which file of the library may import which, and which may touch the process's clock and randomness. */

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
  /** Modules outside the family that use files of an adapter. */
  readonly outsideUses?: readonly {
    readonly from: readonly string[];
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
          of: [
            "stores/postgres/sql/texts.ts",
            "stores/postgres/statements/statement.ts",
            "stores/postgres/statements/template.ts",
          ],
          reason: "an archive is a table of Postgres",
        },
      ],
      outsideUses: [
        {
          from: ["caching/cached.ts", "caching/far-cache.ts"],
          of: ["stores/redis/client.ts"],
          reason: "copies of answers are kept through the clients that the store on Redis takes",
        },
        {
          from: ["cli/migrate.ts", "cli/options.ts"],
          of: ["stores/postgres/statements/names.ts"],
          reason: "a schema named on the command line is checked as the store checks it",
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
      outsideUses: [
        {
          from: ["stores/postgres.ts", "stores/postgres/", "stores/migrate-postgres.ts", "cli/with-store.ts"],
          of: [
            "sql/pg/bridge.ts",
            "sql/pg/client.ts",
            "sql/pg/connection-state.ts",
            "sql/pg/connections.ts",
            "sql/pg/control-statements.ts",
            "sql/pg/options.ts",
            "sql/pg/pipeline.ts",
          ],
          reason: "the store's own statements are sent on the connections of the bridge",
        },
        {
          from: ["stores/pglite.ts", "stores/pglite/"],
          of: ["sql/pglite/bridge.ts", "sql/pglite/database.ts", "sql/pglite/statements.ts"],
          reason: "the store and the bridge share PGlite's one session",
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
      outsideUses: [
        {
          from: ["webhooks/webhooks.ts"],
          of: ["http/fetch/fetch-messages.ts"],
          reason: "a webhook's request is one of Fetch",
        },
        {
          from: ["cli/audit.ts", "testing/expect-protected.ts"],
          of: ["http/coverage/"],
          reason: "it is no adapter: it reads the routes of all of them",
        },
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
