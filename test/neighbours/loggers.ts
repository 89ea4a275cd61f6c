/** Loggers that look at the response: each request has one line, with the status that its client has got. */
import { Writable } from "node:stream";
import morgan from "morgan";
import { pinoHttp } from "pino-http";
import type { Traits } from "./table.ts";
import type { World } from "./world.ts";

export const byMorgan = ({ logged }: World) =>
  morgan(":status", { stream: { write: (line) => void logged.push(line.trim()) } });

/** What pino writes when a request has ended. */
export function pinoLines({ logged }: World): Writable {
  return new Writable({
    write(line, _encoding, done) {
      const { res } = JSON.parse(String(line)) as { res?: { statusCode: number } };
      if (res !== undefined) logged.push(String(res.statusCode));
      done();
    },
  });
}

export const byPino = (world: World) => pinoHttp({}, pinoLines(world));

export const loggers: Traits<"morgan" | "pino"> = { morgan: { logs: true }, pino: { logs: true } };
