/**
 * Stands in front of librdkafka's mock cluster and mends what keeps other clients from using it: it names a controller and a
 * port that exist, answers `ListOffsets` up to version 3 only (version 5 lacks a field), takes a producer that is new for new,
 * and ends the connection of a member that it has forgotten. Everything else passes through byte for byte.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

const api = {
  listOffsets: 2,
  metadata: 3,
  offsetCommit: 8,
  joinGroup: 11,
  heartbeat: 12,
  syncGroup: 14,
  apiVersions: 18,
  initProducerId: 22,
} as const;
/**
 * A member whose session ends while it waits for its group (when another one is frozen, say) is dropped by the mock of
 * librdkafka 2.0.2 together with the answer, for which clients wait a minute. It gives all others theirs within a session.
 */
const forgottenAfterMs = 6_000;
const brokerId = 1;

export interface MendedProxy {
  readonly url: string;
  /** While true, offsets that clients commit are not passed on, and their connections end. */
  refuseCommits(refused: boolean): void;
  /** While true, a member that asks for its partitions loses its connection instead; answers how many have so far. */
  refuseSyncs(refused: boolean): number;
  /** While true, heartbeats are answered as those of an earlier generation; answers how many have been so far. */
  refuseHeartbeats(refused: boolean): number;
  close(): void;
}

interface Asked {
  readonly key: number;
  readonly version: number;
  readonly watch: NodeJS.Timeout | undefined;
}

export async function mendedProxy(target: { readonly port: number }): Promise<MendedProxy> {
  const sockets = new Set<Socket>();
  let refused = false;
  let refusesSyncs = false;
  let syncsRefused = 0;
  let refusesHeartbeats = false;
  let heartbeatsRefused = 0;
  const server = createServer((client) => {
    const broker = connect(target.port, "127.0.0.1");
    const asked = new Map<number, Asked>();
    client.on("close", () => {
      for (const { watch } of asked.values()) clearTimeout(watch);
    });
    for (const [one, other] of [
      [client, broker],
      [broker, client],
    ] as const) {
      sockets.add(one);
      one.setNoDelay(true);
      one.on("error", () => {});
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
    onFrames(client, (frame) => {
      const key = frame.readInt16BE(4);
      if (refused && key === api.offsetCommit) return client.destroy();
      if (refusesSyncs && key === api.syncGroup) {
        syncsRefused += 1;
        return client.destroy();
      }
      const waits = key === api.joinGroup || key === api.syncGroup;
      const watch = waits ? setTimeout(() => client.destroy(), forgottenAfterMs) : undefined;
      asked.set(frame.readInt32BE(8), { key, version: frame.readInt16BE(6), watch });
      broker.write(key === api.initProducerId ? newProducer(frame) : frame);
    });
    onFrames(broker, (frame) => {
      const correlation = frame.readInt32BE(4);
      const request = asked.get(correlation);
      asked.delete(correlation);
      clearTimeout(request?.watch);
      if (request?.key === api.apiVersions) limitVersions(frame);
      if (request?.key === api.metadata) {
        mendMetadata(frame, request.version, (server.address() as AddressInfo).port);
      }
      if (refusesHeartbeats && request?.key === api.heartbeat) {
        heartbeatsRefused += 1;
        refuseHeartbeat(frame, request.version);
      }
      client.write(frame);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  return {
    url: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    refuseCommits: (refusing) => {
      refused = refusing;
    },
    refuseSyncs: (refusing) => {
      refusesSyncs = refusing;
      return syncsRefused;
    },
    refuseHeartbeats: (refusing) => {
      refusesHeartbeats = refusing;
      return heartbeatsRefused;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Whole frames, each with its length in front. */
function onFrames(socket: Socket, take: (frame: Buffer) => unknown): void {
  let rest = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
      const end = 4 + rest.readInt32BE(0);
      const frame = Buffer.from(rest.subarray(0, end));
      rest = rest.subarray(end);
      take(frame);
    }
  });
}

/** Version 3 and later end in producer id, epoch and tags; 0 and 0 are of nobody, as −1 and −1 are. */
function newProducer(frame: Buffer): Buffer {
  if (frame.readInt16BE(6) >= 3 && frame.readBigInt64BE(frame.length - 11) === 0n) {
    frame.writeBigInt64BE(-1n, frame.length - 11);
    frame.writeInt16BE(-1, frame.length - 3);
  }
  return frame;
}

function limitVersions(frame: Buffer): void {
  const entries = 14;
  for (let at = entries; at < entries + frame.readInt32BE(10) * 6 && at + 6 <= frame.length; at += 6) {
    if (frame.readInt16BE(at) === api.listOffsets) {
      frame.writeInt16BE(Math.min(frame.readInt16BE(at + 4), 3), at + 4);
    }
  }
}

/** Behind length and correlation: from version 4 on a byte of tags, from 1 on a throttle time, then the error. */
function refuseHeartbeat(frame: Buffer, version: number): void {
  const illegalGeneration = 22;
  frame.writeInt16BE(illegalGeneration, 8 + (version >= 4 ? 1 : 0) + (version >= 1 ? 4 : 0));
}

function mendMetadata(frame: Buffer, version: number, port: number): void {
  const brokers = frame.readInt32BE(8);
  let at = 12;
  const skipText = () => {
    at += 2 + Math.max(frame.readInt16BE(at), 0);
  };
  for (let broker = 0; broker < brokers; broker++) {
    at += 4;
    skipText();
    frame.writeInt32BE(port, at);
    at += 4;
    if (version >= 1) skipText();
  }
  if (version >= 2) skipText();
  if (version >= 1) frame.writeInt32BE(brokerId, at);
}
