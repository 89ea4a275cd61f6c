/** A neighbour is what stands around a protected route; it says how it is mounted in each front end it exists for. */
import type { NestExpressApplication } from "@nestjs/platform-express";
import type { NestFastifyApplication } from "@nestjs/platform-fastify";
import type { HttpCall } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { type ExpressMount, startExpress } from "./front-ends/express.ts";
import { type FastifyMount, startFastify } from "./front-ends/fastify.ts";
import { type FetchMount, startFetch } from "./front-ends/fetch.ts";
import { type HonoMount, startHono } from "./front-ends/hono.ts";
import { type KoaMount, startKoa } from "./front-ends/koa.ts";
import { type NestMount, startNestOnExpress, startNestOnFastify } from "./front-ends/nest.ts";
import { type NodeMount, startNode } from "./front-ends/node.ts";
import type { Served } from "./front-ends/served.ts";
import type { FrontEnd, NeighbourName, table } from "./table.ts";
import type { AnswerKind, World } from "./world.ts";

export interface Mounts {
  readonly express: ExpressMount;
  readonly express4: ExpressMount;
  readonly fastify: FastifyMount;
  readonly koa: KoaMount;
  readonly hono: HonoMount;
  readonly nest: NestMount<NestExpressApplication>;
  readonly nestFastify: NestMount<NestFastifyApplication>;
  readonly fetch: FetchMount;
  readonly node: NodeMount;
}

export interface Neighbour<F extends FrontEnd = FrontEnd> {
  readonly on: Readonly<Pick<Mounts, F>>;
  /** What the client sends. Default: a JSON body to POST /run. */
  readonly request?: HttpCall;
  /** The same key with other content; null where nothing about the content is in the fingerprint. Default: another JSON body. */
  readonly otherRequest?: HttpCall | null;
  /** Headers whose values no two requests share, also in the app without Latchkey. */
  readonly random?: readonly string[];
  /** Headers that the neighbour gives each request anew, so that a replay has other values than the first answer. */
  readonly ofEachRequest?: readonly string[];
  /** Headers that the neighbour lets the handler set and that no replay has, such as cookies. */
  readonly leftOut?: readonly string[];
  /** Whether the neighbour writes the status of each answer to `world.logged`. Default false. */
  readonly logs?: boolean;
  /** Default: all of them. */
  readonly answers?: readonly AnswerKind[];
}

/** Neighbours of one topic. The compiler wants a mount for each front end that the table names, and no others. */
export type Neighbours<N extends NeighbourName> = {
  readonly [Name in N]: Neighbour<(typeof table)[Name]["on"][number]>;
};

const starts: { readonly [F in FrontEnd]: (mount: Mounts[F], world: World) => Promise<Served> } = {
  express: (mount, world) => startExpress("express", mount, world),
  express4: (mount, world) => startExpress("express4", mount, world),
  fastify: startFastify,
  koa: startKoa,
  hono: startHono,
  nest: startNestOnExpress,
  nestFastify: startNestOnFastify,
  fetch: startFetch,
  node: startNode,
};

export function start<F extends FrontEnd>(
  frontEnd: F,
  neighbour: { readonly on: Readonly<Partial<Mounts>> },
  world: World,
): Promise<Served> {
  const mount: Mounts[F] | undefined = neighbour.on[frontEnd];
  if (mount === undefined) throw new TypeError(`This neighbour is not mounted on ${frontEnd}`);
  return starts[frontEnd](mount, world);
}
