/** Where the fixture runs in tests. The code behind all front ends is the same, and so is the code before all stores. */
import { isThorough } from "../support/thorough.ts";

export interface Place {
  readonly http: string;
  readonly store: string;
}

const frontEnds = ["express", "fastify", "hono", "koa", "node", "nest", "fetch"];
export const stores = ["memory", "pglite", "postgres"];

/** Each store behind one of Node's kind or one of Fetch's; with LATCHKEY_PROVE=1 behind both. */
const mixed: readonly Place[] = [
  { http: "express", store: "memory" },
  { http: "fetch", store: "memory" },
  { http: "express", store: "pglite" },
  { http: "fetch", store: "postgres" },
];
const whole: readonly Place[] = frontEnds
  .flatMap((http) => stores.map((store) => ({ http, store })))
  .filter(({ http, store }) => store === "memory" || http === "express" || http === "fetch");

/** For what several requests in a row show: no front end takes part in that. */
export const somePlaces = isThorough ? whole : mixed;

/** For what a front end could do wrong. */
export const everyFrontEnd = whole.filter(
  (place) =>
    isThorough ||
    place.store === "memory" ||
    mixed.some((one) => one.http === place.http && one.store === place.store),
);
