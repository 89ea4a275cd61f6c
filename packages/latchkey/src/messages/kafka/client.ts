/** The parts of KafkaJS 2 and of `@platformatic/kafka` 2 that Latchkey needs. */

type Bytes = Uint8Array | string;

/** A `Consumer` of KafkaJS that is connected, and has no subscription yet. */
export interface KafkaJsConsumer {
  subscribe(subscription: { topics: string[]; fromBeginning?: boolean }): Promise<void>;
  run(config: {
    autoCommit: boolean;
    eachBatchAutoResolve: boolean;
    partitionsConsumedConcurrently: number;
    eachBatch: (payload: KafkaJsBatchPayload) => Promise<void>;
  }): Promise<void>;
  stop(): Promise<void>;
  pause(topics: { topic: string; partitions: number[] }[]): void;
  resume(topics: { topic: string; partitions: number[] }[]): void;
  on(event: "consumer.group_join", listener: () => void): () => void;
  on(event: "consumer.crash", listener: (event: { payload: { error: Error } }) => void): () => void;
}

export interface KafkaJsBatchPayload {
  readonly batch: {
    readonly topic: string;
    readonly partition: number;
    readonly messages: readonly KafkaJsMessage[];
    lastOffset(): string;
  };
  resolveOffset(offset: string): void;
  heartbeat(): Promise<void>;
  commitOffsetsIfNecessary(offsets: {
    topics: { topic: string; partitions: { partition: number; offset: string }[] }[];
  }): Promise<void>;
  isRunning(): boolean;
  isStale(): boolean;
}

export interface KafkaJsMessage {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers?: Readonly<Record<string, Bytes | Bytes[] | undefined>>;
  readonly offset: string;
}

/** A `Producer` of KafkaJS that is connected. */
export interface KafkaJsProducer {
  send(record: {
    topic: string;
    acks: number;
    timeout: number;
    messages: { key: Buffer | null; value: Buffer | null; headers: Record<string, Buffer> }[];
  }): Promise<unknown>;
  isIdempotent(): boolean;
}

/** A `Consumer` of @platformatic/kafka without deserializers, and without streams of its own. */
type PlatformaticEvent = "consumer:group:join" | "consumer:heartbeat:end" | "consumer:heartbeat:stalled";

export interface PlatformaticConsumer {
  consume(options: {
    topics: string[];
    mode: "committed";
    fallbackMode: "earliest" | "latest";
    autocommit: false;
  }): Promise<PlatformaticStream>;
  commit(options: {
    offsets: { topic: string; partition: number; offset: bigint; leaderEpoch: number }[];
  }): Promise<void>;
  /** Whether it is a member of its group, with heartbeats. */
  isActive(): boolean;
  joinGroup(options: object): Promise<unknown>;
  /** @param force closes the streams that are still open */
  leaveGroup(force: boolean): Promise<void>;
  on(event: PlatformaticEvent, listener: () => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: PlatformaticEvent, listener: () => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
}

export interface PlatformaticStream extends AsyncIterable<PlatformaticMessage> {
  destroy(): unknown;
}

export interface PlatformaticMessage {
  readonly key?: Bytes | null;
  readonly value?: Bytes | null;
  readonly headers: ReadonlyMap<Bytes, Bytes | null | undefined>;
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly leaderEpoch: number;
}

/** A `Producer` of @platformatic/kafka without serializers. */
export interface PlatformaticProducer {
  send(options: {
    acks: number;
    idempotent: boolean;
    messages: { topic: string; key?: Buffer; value?: Buffer; headers: Map<Buffer, Buffer> }[];
  }): Promise<unknown>;
  readonly producerId: bigint | undefined;
}

export type KafkaConsumer = KafkaJsConsumer | PlatformaticConsumer;
export type KafkaProducer = KafkaJsProducer | PlatformaticProducer;
