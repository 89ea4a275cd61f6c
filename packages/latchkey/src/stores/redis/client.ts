/** The users' clients, typed as the subset that the store needs. No driver is imported. */

/** An argument for the server: text is sent as UTF-8, bytes as they are. */
export type Argument = string | Buffer;

/** `Redis` of ioredis 5 and 6 and of iovalkey. */
export interface IoredisClient {
  callBuffer(command: string, ...args: Argument[]): Promise<unknown>;
  /** True for a cluster. */
  readonly isCluster?: boolean;
}

/** A method that ioredis has but does not declare. Its `callBuffer` loses the command's name under `enableAutoPipelining`. */
interface UntypedIoredis {
  evalshaBuffer(this: IoredisClient, ...args: Argument[]): Promise<unknown>;
  evalBuffer(this: IoredisClient, ...args: Argument[]): Promise<unknown>;
}

/** What `createClient` and `createClientPool` of node-redis 4, 5 and 6 return. */
export interface NodeRedisClient {
  sendCommand(args: Argument[], options?: never): Promise<unknown>;
  readonly isOpen?: boolean;
}

/** What `createCluster` of node-redis 4, 5 and 6 returns. */
export interface NodeRedisCluster {
  sendCommand(
    firstKey: string | Buffer | undefined,
    isReadonly: boolean | undefined,
    args: Argument[],
    options?: never,
  ): Promise<unknown>;
  readonly masters: readonly unknown[];
}

/** What `createSentinel` of node-redis 5 and 6 returns. ioredis' sentinel client is a `Redis`. */
export interface NodeRedisSentinel {
  sendCommand(isReadonly: boolean | undefined, args: Argument[], options?: never): Promise<unknown>;
  getMasterNode(): unknown;
}

export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisCluster | NodeRedisSentinel;

/** How the store calls a script, the same for all clients. */
export interface RedisLink {
  readonly cluster: boolean;
  /** `by` is the digest of a script, or its text. Replies are numbers, bytes, null, and lists of these. */
  call(
    how: "EVALSHA" | "EVAL",
    by: string,
    keys: readonly string[],
    args: readonly Argument[],
  ): Promise<unknown>;
}

/** node-redis 4 reads the first option, 5 and 6 the second ("$", 36, is RESP's mark of a bulk string). */
const asBytes = { returnBuffers: true, typeMapping: { 36: Buffer } };

/** @throws {TypeError} when `client` is none of the supported clients */
export function linkOf(client: RedisClient): RedisLink {
  if (isIoredis(client)) {
    return {
      cluster: client.isCluster === true,
      call: (how, by, keys, args) => {
        const all = [by, String(keys.length), ...keys, ...args];
        const { evalshaBuffer, evalBuffer } = client as Partial<UntypedIoredis>;
        if (evalshaBuffer === undefined || evalBuffer === undefined) return client.callBuffer(how, ...all);
        return how === "EVALSHA" ? evalshaBuffer.apply(client, all) : evalBuffer.apply(client, all);
      },
    };
  }
  if (typeof client?.sendCommand !== "function") {
    throw new TypeError("client must be one of ioredis, iovalkey or node-redis");
  }
  if (isNodeRedisCluster(client)) {
    return {
      cluster: true,
      call: (how, by, keys, args) =>
        client.sendCommand(
          keys[0],
          false,
          [how, by, String(keys.length), ...keys, ...args],
          asBytes as never,
        ),
    };
  }
  if (isNodeRedisSentinel(client)) {
    return {
      cluster: false,
      call: (how, by, keys, args) =>
        client.sendCommand(false, [how, by, String(keys.length), ...keys, ...args], asBytes as never),
    };
  }
  return {
    cluster: false,
    call: (how, by, keys, args) =>
      client.sendCommand([how, by, String(keys.length), ...keys, ...args], asBytes as never),
  };
}

function isIoredis(client: RedisClient): client is IoredisClient {
  return typeof (client as Partial<IoredisClient> | null)?.callBuffer === "function";
}

function isNodeRedisCluster(client: RedisClient): client is NodeRedisCluster {
  return "masters" in client;
}

function isNodeRedisSentinel(client: NodeRedisClient | NodeRedisSentinel): client is NodeRedisSentinel {
  return "getMasterNode" in client;
}
