/** The part of `rabbitmq-client` that Latchkey needs. */

export interface RabbitmqDelivery {
  readonly messageId?: string;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly redelivered?: boolean;
  /** Bytes; or a text or a value, if the client has decoded `text/plain` or parsed `application/json`. */
  readonly body: unknown;
}

/** 0 acknowledges, 1 requeues, 2 rejects. */
export type RabbitmqStatus = 0 | 1 | 2;

/** Options of the client's consumer, but for those that Latchkey sets. */
export interface RabbitmqConsumerProps {
  readonly queueOptions?: object;
  readonly exchanges?: object[];
  readonly queueBindings?: object[];
  readonly exchangeBindings?: object[];
  readonly exclusive?: boolean;
  readonly arguments?: object;
}

export interface RabbitmqSubscription {
  on(event: "error", listener: (error: unknown) => void): unknown;
  close(): Promise<void>;
}

export interface RabbitmqPublisher {
  send(envelope: RabbitmqEnvelope, body: Buffer): Promise<void>;
  on(event: "basic.return", listener: (message: RabbitmqReturned) => void): unknown;
  close(): Promise<void>;
}

export interface RabbitmqEnvelope {
  readonly exchange: string;
  readonly routingKey: string;
  readonly messageId: string;
  readonly mandatory: boolean;
  readonly durable: boolean;
  readonly contentType: string;
  readonly headers: Record<string, unknown>;
}

export interface RabbitmqReturned {
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly replyText?: string;
}

/** A `Connection` of rabbitmq-client 5. */
export interface RabbitmqConnection {
  createConsumer(
    /** The client's own options, which it checks itself. */
    props: never,
    handler: (message: RabbitmqDelivery) => Promise<RabbitmqStatus>,
  ): RabbitmqSubscription;
  createPublisher(props: { confirm?: boolean; maxAttempts?: number }): RabbitmqPublisher;
  on(event: "error", listener: (error: unknown) => void): unknown;
  off(event: "error", listener: (error: unknown) => void): unknown;
}
