/**
 * A service with a cache of answers in front of its handler, as people have it without Latchkey: node-idempotency over
 * Redis. DIE says when it ends: `before` the payment is written, or `after` it is committed and before the answer is stored.
 */
import type { AddressInfo } from "node:net";
import { Idempotency } from "@node-idempotency/core";
import { RedisStorageAdapter } from "@node-idempotency/storage-adapter-redis";
import express from "express";
import pg from "pg";

/** How long a key stays locked, and an answer stored: a day by default. */
const cacheTTLMS = Number(process.env.TTL_MS ?? 1_000);

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? "" });
const storage = new RedisStorageAdapter({ url: process.env.REDIS_URL ?? "" });
await storage.connect();
const idempotency = new Idempotency(storage, { cacheTTLMS });

const app = express().use(express.json());
app.post("/payments", async (req, res) => {
  const { headers, url, method, body } = req;
  const request = { headers, path: url, method, body };
  try {
    const stored = await idempotency.onRequest(request);
    if (stored?.body !== undefined) {
      res.status(201).send(stored.body);
      return;
    }
  } catch {
    res.status(409).end();
    return;
  }
  if (process.env.DIE === "before") process.kill(process.pid, "SIGKILL");
  const { rows } = await pool.query("insert into payments (amount) values ($1) returning id", [body.amount]);
  if (process.env.DIE === "after") process.kill(process.pid, "SIGKILL");
  const answer = { id: rows[0].id };
  await idempotency.onResponse(request, { body: answer, additional: { statusCode: 201 } });
  res.status(201).json(answer);
});

const server = app.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  console.log(JSON.stringify({ ready: true, url: `http://127.0.0.1:${port}` }));
});
