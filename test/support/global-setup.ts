import type { TestProject } from "vitest/node";
import { type ControlServer, startControl } from "./control.ts";
import { collectNotRun, notRun } from "./not-run.ts";
import { installedVersions, type PostgresVersion } from "./postgres-binaries.ts";
import { type PrivatePostgres, startPostgres } from "./private-postgres.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Path of the Unix socket that `sharedPostgres` asks. */
    controlPath: string;
    /** Major versions installed here, oldest first. */
    postgresVersions: PostgresVersion[];
  }
}

/** Many files with a pool each use a shared server at once. */
const SHARED_CONF = { max_connections: 300 };

const servers = new Map<PostgresVersion, Promise<PrivatePostgres>>();
let control: ControlServer | undefined;
let summarise = () => {};

/** Starts nothing: a shared server comes up when the first test asks for it, and ends after the last one. */
export async function setup(project: TestProject): Promise<void> {
  summarise = collectNotRun();
  const versions = installedVersions();
  if (versions.length < 2) {
    notRun("tests on two major versions of PostgreSQL", `found ${versions.join(", ") || "none"}`);
  }
  control = await startControl(async ({ postgres }) => {
    const version = versions.find((one) => one === postgres);
    if (!version) return { error: `PostgreSQL ${postgres} is not installed` };
    const server = servers.get(version) ?? startPostgres({ version, conf: SHARED_CONF });
    servers.set(version, server);
    return { url: (await server).url };
  });
  project.provide("controlPath", control.path);
  project.provide("postgresVersions", versions);
}

export async function teardown(): Promise<void> {
  await control?.close();
  for (const server of servers.values()) await (await server.catch(() => undefined))?.stop();
  summarise();
}
