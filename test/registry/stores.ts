/** Every store: tests, the fixture, documents and checks run over this list. */
import type { RegisteredStore } from "./store.ts";
import { memory } from "./stores/memory/memory.ts";
import { pglite } from "./stores/pglite/pglite.ts";
import { postgres } from "./stores/postgres/postgres.ts";
import { redis } from "./stores/redis/redis.ts";

export const stores: readonly RegisteredStore[] = [postgres, pglite, redis, memory];
