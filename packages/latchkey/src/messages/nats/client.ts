/** The part of `@nats-io/jetstream` that Latchkey needs. */

export interface NatsHeaders {
  get(name: string): string;
  keys(): string[];
}

/** A `JsMsg`. */
export interface NatsDelivery {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly headers?: NatsHeaders | undefined;
  readonly redelivered: boolean;
  /** In the stream. */
  readonly seq: number;
  /** The delivery's number among all deliveries of the consumer. */
  readonly info: { readonly deliverySequence: number };
  ackAck(): Promise<boolean>;
  nak(millis?: number): void;
  working(): void;
  term(reason?: string): void;
}

/** A status event of the client while it consumes. */
export interface NatsStatus {
  readonly type: string;
}

export interface NatsMessages extends AsyncIterable<NatsDelivery> {
  close(): Promise<unknown>;
  /** Ends with the messages. */
  status(): AsyncIterable<NatsStatus>;
}

export interface NatsConsumerInfo {
  readonly num_ack_pending: number;
  /** The latest delivery, to any client. */
  readonly delivered: { readonly consumer_seq: number; readonly stream_seq: number };
}

/** A pull `Consumer`, as `js.consumers.get(stream, name)` gives it. */
export interface NatsConsumer {
  /** Asks the server. */
  info(): Promise<NatsConsumerInfo>;
  consume(options: { max_messages: number; expires: number }): Promise<NatsMessages>;
}

/** A `JetStreamClient`. */
export interface NatsJetStream {
  publish(
    subject: string,
    payload: Uint8Array,
    options: { msgID: string; timeout: number },
  ): Promise<{ readonly duplicate: boolean }>;
}
