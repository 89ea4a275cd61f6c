import type { RegisteredStore } from "../../store.ts";

export const redis: RegisteredStore = {
  name: "redis",
  docs: {
    versions: "Redis 6.2+ and Redis Cluster without transactions",
    gives: "the store on Redis and Valkey, single or cluster, for ioredis, iovalkey and node-redis",
  },
  transactions: false,
  keptIn: "server",
  protocols: ["redis:", "rediss:"],
  defaultPort: "6379",
  options: { client: {} },
  adapter: () => import("../../../../packages/latchkey/src/stores/redis.ts"),
  fixture: () => import("./fixture.ts"),
};
