/**
 * DBOS, with the request's key as the id of a workflow: an id seen before gives the result of its first run. It does not
 * compare bodies. The writes go through its data source for postgres.js, with prepared statements: that has a release for
 * the same version of the SDK (4.24.16), and fails with SDK 5.
 */
import { DBOS } from "@dbos-inc/dbos-sdk";
import { PostgresDataSource } from "@dbos-inc/postgres-datasource";
import type { Request, RequestHandler } from "express";
import { fixedAnswer, type Order, writeOrder } from "../jobs.ts";
import { poolSize, postgresUrl } from "../services.ts";
import type { Job } from "../subject.ts";

export async function handleWithDbos(
  job: Job,
  tenant: (req: Request) => string | undefined,
): Promise<RequestHandler> {
  // The servers of both jobs start at once, and one must not recover the workflows of the other.
  const schema = `dbos_${job}`;
  DBOS.setConfig({
    name: schema,
    executorID: schema,
    systemDatabaseUrl: postgresUrl(),
    systemDatabaseSchemaName: schema,
    systemDatabasePoolSize: poolSize,
    logLevel: "error",
  });
  const workflow = DBOS.registerWorkflow(job === "order" ? openOrders(schema) : async () => fixedAnswer(), {
    name: job,
  });
  await DBOS.launch();
  return async (req, res) => {
    const workflowID = `${tenant(req)}/${req.get("idempotency-key")}`;
    const handle = await DBOS.startWorkflow(workflow, { workflowID })(req.body);
    res.status(201).json(await handle.getResult());
  };
}

/** Both writes and the completion of the step are one transaction. */
function openOrders(schema: string): (order: Order) => Promise<object> {
  const { hostname, port, pathname, username } = new URL(postgresUrl());
  const source = new PostgresDataSource(
    "orders",
    { host: hostname, port: Number(port), database: pathname.slice(1), username, max: poolSize },
    schema,
  );
  const query = async (text: string, values: readonly (string | number)[]) => ({
    rows: await source.client.unsafe(text, [...values], { prepare: true }),
  });
  const client = { query } as unknown as Parameters<typeof writeOrder>[0];
  return (order) => source.runTransaction(() => writeOrder(client, order), { name: "order" });
}
