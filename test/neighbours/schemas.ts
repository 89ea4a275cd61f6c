/** Libraries that make the answer themselves: GraphQL, tRPC, route handlers in Next's form. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { initTRPC } from "@trpc/server";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Traits } from "./table.ts";
import type { World } from "./world.ts";

interface Yoga {
  (req: IncomingMessage, res: ServerResponse): Promise<void>;
  fetch(request: Request): Promise<Response>;
  fetch(url: string, init: RequestInit): Promise<Response>;
  handleNodeRequestAndResponse(req: IncomingMessage, res: ServerResponse): Promise<Response>;
}

interface YogaModule {
  createYoga(options: object): Yoga;
  createSchema(definition: object): object;
}

/** Its own types bring those of browsers to everything that is compiled with them. */
const { createYoga, createSchema }: YogaModule = createRequire(import.meta.url)("graphql-yoga");

const mutation = (amount: number) => JSON.stringify({ query: `mutation { order(amount: ${amount}) }` });

/** GraphQL answers JSON, whatever the world's handler would have answered. */
export function yogaOf(world: World) {
  const order = async (_: unknown, { amount }: { readonly amount: number }) => {
    await world.run(amount);
    return amount;
  };
  return createYoga({
    graphqlEndpoint: "/run",
    logging: false,
    schema: createSchema({
      typeDefs: "type Query { orders: Int } type Mutation { order(amount: Int!): Int }",
      resolvers: { Mutation: { order } },
    }),
  });
}

export function routerOf(world: World) {
  const { procedure, router } = initTRPC.create();
  return router({
    run: procedure
      .input((input) => input as { readonly amount: number })
      .mutation(async ({ input }) => {
        await world.run(input);
        return { ordered: input.amount };
      }),
  });
}

export async function yogaOnFastify(yoga: Yoga, request: FastifyRequest, reply: FastifyReply) {
  const response = await yoga.fetch("http://service/run", {
    method: request.method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(request.body),
  });
  return reply
    .code(response.status)
    .headers(Object.fromEntries(response.headers))
    .send(await response.text());
}

const jsonOnly = { answers: ["json"] } as const;

export const schemas: Traits<"graphqlYoga" | "trpc" | "routeHandlers"> = {
  graphqlYoga: { ...jsonOnly, request: { body: mutation(1) }, otherRequest: { body: mutation(2) } },
  trpc: jsonOnly,
  routeHandlers: {},
};
