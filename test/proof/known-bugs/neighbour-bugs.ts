/** Bugs that were reported of what stands around a route (frameworks, middleware, wrappers, databases), tried with Latchkey between. */
import type { KnownBug } from "./known-bugs.ts";

const src = "packages/latchkey/src";
const neighbours = "test/neighbours";
const at = (file: string, title: string) => ({ file, title });

export const neighbourBugs: readonly KnownBug[] = [
  {
    bug: "Behind a Lambda wrapper, requests look read and responses look begun",
    where:
      "dougmoscrop/serverless-http#278, #197, #274, #157, CodeGenieApp/serverless-express#515, expressjs/body-parser#608",
    shownBy: [
      at(`${neighbours}/lambda.test.ts`, "serverless-http, Express 5"),
      at(`${neighbours}/lambda.test.ts`, "serverless-http, Koa"),
      at(`${neighbours}/lambda.test.ts`, "@codegenie/serverless-express, Express"),
    ],
  },
  {
    bug: "A time-out answers, and the handler continues and answers a second time",
    where: "expressjs/timeout#17, #28, #2, ServeRest/ServeRest#533, debitoor/express-timeout-handler#6",
    shownBy: [
      at(`${neighbours}/timeouts.test.ts`, "connect-timeout on Express 5"),
      at(`${neighbours}/timeouts.test.ts`, "express-timeout-handler"),
      at(`${neighbours}/timeouts.test.ts`, "Fastify's handlerTimeout for a whole server"),
      at(
        `${src}/http/nest/nest.test.ts`,
        "a lease continues when Nest has answered; a retry learns that it has ended",
      ),
    ],
    why: "The client gets the time-out's answer, and the end of the handler is stored.",
  },
  {
    bug: "Another file with the same fields gets the first upload's answer",
    where: "OUS-Senior-Project/backend#95",
    shownBy: [
      at(
        `${neighbours}/uploads.test.ts`,
        "a retry with a boundary of its own gets the first answer, another file or field does not",
      ),
      at(
        `${neighbours}/uploads.test.ts`,
        "files that a storage of the app's own has taken cannot be distinguished, and the error says so",
      ),
    ],
  },
  {
    bug: "The same upload counts as another request, because each try has its own boundary",
    where:
      "asimons81/wp-chatgpt-publisher#14, chatvector-ai/chatvector-ai#506, #520, ietf-wg-httpapi/idempotency#36",
    shownBy: [
      at(`${src}/fingerprint/fingerprint.test.ts`, "the boundary does not count"),
      at(`${src}/fingerprint/fingerprint.test.ts`, "no parts of one body are another's"),
    ],
  },
  {
    bug: "A body that no parser has read is an empty object",
    where: "koajs/koa-body#210, #50, koajs/bodyparser#45, #80",
    shownBy: [
      at(
        `${neighbours}/body-parsers.test.ts`,
        "a body that it has not read is there for the handler, as bytes and in the stream",
      ),
    ],
  },
  {
    bug: "Middleware that reads a request's body breaks it: `duplex option is required`",
    where: "honojs/hono#2627, #5010, langwatch/langwatch#6636",
    shownBy: [
      at(
        "test/http/hono-server.test.ts",
        "a server that replaces no globals, behind middleware that has looked into the request",
      ),
    ],
  },
  {
    bug: "A proxy waits forever for a body that has already been read",
    where: "chimurai/http-proxy-middleware#40, #177, http-party/node-http-proxy#180, #530, webpro/dyson#43",
    shownBy: [
      at(`${neighbours}/proxies.test.ts`, "http-proxy-middleware on Express"),
      at(`${neighbours}/proxies.test.ts`, "hands the body on, once"),
      at(`${neighbours}/proxies.test.ts`, "bodies that are not read again do not stop the connection"),
    ],
  },
  {
    bug: "An answer without a body gets a type, a digest or a compressed nothing",
    where: "fastify/fastify#612",
    shownBy: [
      at(`${neighbours}/empty-answers.test.ts`, "an empty answer, %s"),
      at(
        `${src}/http/fetch/fetch.test.ts`,
        "bodies of each kind are answered and replayed as the handler made them",
      ),
    ],
  },
  {
    bug: "An app mounted twice replays one mount's answer on the other",
    where: "Universal-Commerce-Protocol/samples#166, #171 (one key on two resources)",
    shownBy: [
      at(`${neighbours}/mounts.test.ts`, "Express 5, a router mounted twice"),
      at(`${neighbours}/mounts.test.ts`, "Hono, mount"),
      at(`${neighbours}/routes.test.ts`, "versions by %s under a global prefix are routes of their own"),
    ],
  },
  {
    bug: "The key contains something that changes between tries, and the customer pays twice",
    where: "Adyen/adyen-commercetools#1305, julik/idempo",
    shownBy: [
      at(
        `${src}/http/protocol/exchange.test.ts`,
        "a tenant or a principal that looks like a credential is an error before anything else",
      ),
      at(`${src}/effects/downstream-key.test.ts`, "never change: %j"),
    ],
  },
  {
    bug: "With SERIALIZABLE as the default, unrelated work makes each other fail",
    where: "oban-bg/oban#1132, spring-projects/spring-batch#1497",
    shownBy: [
      at(
        "test/postgres/settings.faults.test.ts",
        "SERIALIZABLE by the database: requests for other keys do not fail each other",
      ),
    ],
  },
];
