/** The counts that an inbox writes about a message, outside the message's transaction. */
import type { Runtime } from "../execution/runtime.ts";
import type { MessageCount, MessageFacts, MessageSupport, MessageTally } from "../stores/messages.ts";
import type { Message, MessageDeath } from "./broker.ts";

export class Tallies<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #support: MessageSupport;
  readonly #keepMs: number;

  constructor(runtime: Runtime<Tx>, support: MessageSupport, keepMs: number) {
    this.#runtime = runtime;
    this.#support = support;
    this.#keepMs = keepMs;
  }

  /** All of them throw {StoreError}. */
  find({ digest, tenant }: MessageFacts): Promise<MessageTally | null> {
    return this.#runtime.guard(() => this.#support.find(digest, tenant));
  }

  start(facts: MessageFacts): Promise<MessageTally> {
    return this.#count(facts, { starts: 1, returns: 0, failures: 0, errorCode: null });
  }

  returned(facts: MessageFacts, returns: number): Promise<MessageTally> {
    return this.#count(facts, { starts: 0, returns, failures: 0, errorCode: null });
  }

  /** @param counted whether its start was counted; that of a first delivery is not */
  failed(facts: MessageFacts, counted: boolean, errorCode: string): Promise<MessageTally> {
    return this.#count(facts, { starts: counted ? 0 : 1, returns: 1, failures: 1, errorCode });
  }

  forget({ digest, tenant }: MessageFacts): Promise<void> {
    return this.#support.forget(digest, tenant);
  }

  /** @param judged as in `MessageSupport.bury` */
  async bury(
    facts: MessageFacts,
    message: Message,
    reason: MessageDeath,
    judged: MessageTally | null,
  ): Promise<boolean> {
    const payload = await this.#runtime.codec.encode(message.body, letterContext(facts));
    const { contentType } = message;
    const letter = { id: this.#id(), reason, contentType: storable(contentType), payload };
    return this.#support.bury(facts, letter, judged);
  }

  #count(facts: MessageFacts, count: Omit<MessageCount, "keepMs">): Promise<MessageTally> {
    return this.#support.count(facts, { ...count, keepMs: this.#keepMs }, this.#id());
  }

  #id(): string {
    const { clock, random } = this.#runtime.ports;
    return random.uuid(clock.wallMs());
  }
}

/** The codec's context for the payload of a dead letter. */
export function letterContext({ digest, operation, tenant, key }: MessageFacts) {
  const place = { tenant: tenant ?? "", scope: operation, key: key ?? "" };
  return { ...place, recordId: digest, fingerprint: Buffer.from(digest, "hex"), part: "message" as const };
}

/** A sender may set any content type; characters that no store takes are removed. */
function storable(contentType: string | null): string | null {
  return contentType === null ? null : contentType.replaceAll("\0", "").toWellFormed().slice(0, 200);
}
