/** Loggers that look at the response: each request has one line, with the status that its client has got. */
import { Writable } from "node:stream";
import { logger as honoLogger } from "hono/logger";
import koaPino from "koa-pino-logger";
import morgan from "morgan";
import { pinoHttp } from "pino-http";
import type { Neighbours } from "./frame.ts";
import type { ExpressMount } from "./front-ends/express.ts";
import type { World } from "./world.ts";

const byMorgan = ({ logged }: World) =>
  morgan(":status", { stream: { write: (line) => void logged.push(line.trim()) } });

/** What pino writes when a request has ended. */
function pinoLines({ logged }: World): Writable {
  return new Writable({
    write(line, _encoding, done) {
      const { res } = JSON.parse(String(line)) as { res?: { statusCode: number } };
      if (res !== undefined) logged.push(String(res.statusCode));
      done();
    },
  });
}

const expressWith =
  (makeLogger: (world: World) => unknown): ExpressMount =>
  ({ app, express, world, protect, handler }) => {
    app.use(makeLogger(world) as never, express.json());
    app.post("/run", protect(handler, { fingerprint: "parsed" }));
  };

const byPino = (world: World) => pinoHttp({}, pinoLines(world));

export const loggers: Neighbours<"morgan" | "pino"> = {
  morgan: {
    on: {
      express: expressWith(byMorgan),
      express4: expressWith(byMorgan),
      hono({ app, world, protect, handler }) {
        app.use(
          honoLogger((line) => {
            const status = /^--> .*?(\d{3})/u.exec(stripColours(line))?.[1];
            if (status !== undefined) world.logged.push(status);
          }),
        );
        app.post("/run", protect(handler));
      },
      nest: { setUp: ({ app, world }) => void app.use(byMorgan(world)) as undefined },
      node({ world, protect, handler }) {
        const handle = protect(handler);
        const log = byMorgan(world);
        return (req, res) => log(req, res, () => void handle(req, res));
      },
    },
    logs: true,
  },
  pino: {
    on: {
      express: expressWith(byPino),
      express4: expressWith(byPino),
      // The front end gives every app Fastify's own logger.
      fastify({ app, protect, handler }) {
        app.post("/run", protect(handler));
      },
      koa({ app, world, protect, handler }) {
        app.use(koaPino({}, pinoLines(world)));
        app.use(protect(handler));
      },
      nest: { setUp: ({ app, world }) => void app.use(byPino(world)) as undefined },
      // The front end gives every app Fastify's own logger.
      nestFastify: {},
      node({ world, protect, handler }) {
        const handle = protect(handler);
        const log = byPino(world);
        return (req, res) => {
          log(req, res);
          void handle(req, res);
        };
      },
    },
    logs: true,
  },
};

function stripColours(line: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters.
  return line.replace(/\u001b\[\d+m/gu, "");
}
