/** Where the fixture runs in tests. The code behind all front ends is the same, and so is the code before all stores. */
import { frameworks } from "../registry/frameworks.ts";
import { stores as registered } from "../registry/stores.ts";
import { isThorough } from "../support/thorough.ts";

export interface Place {
  readonly http: string;
  readonly store: string;
}

/** Redis has no transactions: `fixture-redis.all.test.ts` has its own tests. */
export const stores = registered.filter(({ transactions }) => transactions).map(({ name }) => name);

/** One of Node's kind and one of Fetch's, on two stores; with `npm run test:all` each store behind both. */
const mixed: readonly Place[] = [
  { http: "fetch", store: "memory" },
  { http: "express", store: "postgres" },
];
const whole: readonly Place[] = frameworks
  .flatMap(({ name: http }) => stores.map((store) => ({ http, store })))
  .filter(({ http, store }) => store === "memory" || http === "express" || http === "fetch");

/** For what several requests in a row show: no front end takes part in that. */
export const somePlaces = isThorough ? whole : mixed;

/** For what a front end could do wrong. */
export const everyFrontEnd = whole.filter(
  (place) => isThorough || mixed.some((one) => one.http === place.http && one.store === place.store),
);
