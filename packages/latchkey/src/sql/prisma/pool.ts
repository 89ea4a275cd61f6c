/**
 * The pool under Prisma's adapter. Prisma takes a client out of its pool for each of its transactions; while Latchkey
 * opens one through Prisma, that client is a facade for the one on which Latchkey has begun already.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { PgPool } from "../pg/client.ts";
import type { PrismaClientFacade } from "./client-facade.ts";

/** The client that Prisma gets the first time that it takes one out of the pool. */
interface Claim {
  readonly pool: PgPool;
  facade: PrismaClientFacade | null;
}

const claims = new AsyncLocalStorage<Claim>();

/** The user's own pools, by the proxies made of them. */
const originals = new WeakMap<object, PgPool>();

/**
 * Makes the pool to give to Prisma's adapter: `new PrismaPg(prismaPool(pool))`. It behaves like `pool`, except that the
 * transactions of protected handlers run on the client on which Latchkey has begun them.
 *
 * @throws {TypeError} when `pool` is not a `pg` Pool
 */
export function prismaPool<P extends PgPool>(pool: P): P {
  if (typeof pool?.connect !== "function") throw new TypeError("pool must be a `pg` Pool");
  const own = new Proxy(pool, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (property === "connect")
        return (...args: never[]) => takeClaim(target, args) ?? target.connect(...args);
      // Otherwise methods of the pool would call `connect` of the proxy.
      return typeof value === "function" && property !== "constructor" ? value.bind(target) : value;
    },
  });
  originals.set(own, pool);
  return own;
}

export function originalOf(pool: PgPool): PgPool {
  return originals.get(pool) ?? pool;
}

/** Runs `open`, in which Prisma takes one client out of `pool`: it gets `facade`. */
export function withFacade<T>(pool: PgPool, facade: PrismaClientFacade, open: () => T): T {
  return claims.run({ pool, facade }, open);
}

function takeClaim(pool: PgPool, args: readonly unknown[]): Promise<PrismaClientFacade> | null {
  const claim = claims.getStore();
  const facade = claim?.facade ?? null;
  if (claim === undefined || facade === null || claim.pool !== pool || args.length > 0) return null;
  claim.facade = null;
  return Promise.resolve(facade);
}
