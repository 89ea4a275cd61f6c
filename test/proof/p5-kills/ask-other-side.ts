/** The way to the other side, for whoever calls it. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Question, Reply } from "./other-side.ts";

export type Ask = (question: Omit<Question, "by">) => Promise<Reply>;

export interface Way {
  readonly socket: Socket;
  readonly ask: Ask;
  end(): void;
}

/** @param by who asks */
export async function wayToOtherSide(port: number, by: string): Promise<Way> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  const waiting = new Map<number, (reply: Reply) => void>();
  let asked = 0;
  const lines = createInterface({ input: socket });
  lines.on("error", () => {});
  lines.on("line", (line) => {
    const { id, reply } = JSON.parse(line) as { id: number; reply: Reply };
    waiting.get(id)?.(reply);
    waiting.delete(id);
  });
  // A question that is not answered any more stays so, as with a connection that hangs.
  socket.on("error", () => {});
  socket.write(`${JSON.stringify({ hello: by })}\n`);
  return {
    socket,
    ask: (question) =>
      new Promise((resolve) => {
        asked += 1;
        waiting.set(asked, resolve);
        socket.write(`${JSON.stringify({ id: asked, question: { ...question, by } })}\n`);
      }),
    end: () => socket.end(),
  };
}
