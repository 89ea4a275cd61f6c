import { once } from "node:events";
import { chmodSync } from "node:fs";
import { rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { scratchDirectory } from "./scratch.ts";
import { watchDirectory } from "./watchdog.ts";

/**
 * A channel from the test files to the process of Vitest's global set-up, so that servers shared by all files start on first
 * use: one request (JSON) per connection over a Unix socket, one answer.
 */
export type ControlRequest = { postgres: number };
export type ControlAnswer = { url: string } | { error: string };

export interface ControlServer {
  readonly path: string;
  close(): Promise<void>;
}

export async function startControl(
  answer: (request: ControlRequest) => Promise<ControlAnswer>,
): Promise<ControlServer> {
  const folder = scratchDirectory("us");
  chmodSync(folder, 0o700);
  const forget = watchDirectory(folder);
  const path = join(folder, "control");
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {});
    void respond(socket, answer);
  });
  server.listen(path);
  await once(server, "listening");
  server.unref();
  return {
    path,
    async close() {
      server.close();
      await rm(folder, { recursive: true, force: true });
      forget();
    },
  };
}

async function respond(socket: Socket, answer: (request: ControlRequest) => Promise<ControlAnswer>) {
  try {
    const request = JSON.parse(await text(socket)) as ControlRequest;
    socket.end(JSON.stringify(await answer(request)));
  } catch (error) {
    socket.end(JSON.stringify({ error: String(error) }));
  }
}

export async function askControl(path: string, request: ControlRequest): Promise<ControlAnswer> {
  const socket = connect({ path, allowHalfOpen: true });
  await once(socket, "connect");
  socket.end(JSON.stringify(request));
  return JSON.parse(await text(socket)) as ControlAnswer;
}
