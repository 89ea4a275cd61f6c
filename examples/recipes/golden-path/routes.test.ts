/** Every route that changes something is protected. The routes are read from the app; no database is asked. */
import { test } from "node:test";
import { expectEveryRouteProtected } from "latchkey/testing";
import pg from "pg";
import { createApp } from "./app.ts";

test("every route that changes something is protected", () => {
  const secrets = { keys: "k".repeat(32), answers: Buffer.alloc(32).toString("base64") };
  const { app } = createApp(new pg.Pool(), "http://localhost:4000", secrets);
  expectEveryRouteProtected(app); // { except: ["POST /webhooks"] } for routes that need no key
});
