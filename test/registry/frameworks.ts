/** Every framework that has an adapter: tests, the fixture, documents and checks run over this list. */
import type { NamedNeighbours } from "../neighbours/table.ts";
import type { Framework } from "./framework.ts";
import { express } from "./frameworks/express/express.ts";
import { fastify } from "./frameworks/fastify/fastify.ts";
import { fetch } from "./frameworks/fetch/fetch.ts";
import { hono } from "./frameworks/hono/hono.ts";
import { koa } from "./frameworks/koa/koa.ts";
import { nest } from "./frameworks/nest/nest.ts";
import { node } from "./frameworks/node/node.ts";

export const frameworks: readonly Framework[] = [express, fastify, hono, koa, node, nest, fetch];

/** The variants, of all frameworks, that are run with a neighbour. */
export function variantsWith(neighbour: keyof NamedNeighbours): readonly string[] {
  return frameworks
    .flatMap(({ variants }) => Object.entries(variants))
    .filter(([, { neighbours }]) => neighbours[neighbour] !== undefined)
    .map(([variant]) => variant);
}

/** The small services of every framework. */
export function smallServices() {
  return Promise.all(
    frameworks.map(async ({ name, docs, services }) => ({
      name,
      title: docs.title,
      ...(await services()).services,
    })),
  );
}
