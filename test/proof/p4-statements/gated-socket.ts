/**
 * A client's socket whose flights wait to be let go, part by part. The client neither sees nor waits for anything else than
 * it would on a slow network: its bytes arrive later, its replies too, or never.
 */
import { Socket } from "node:net";
import { type CutFlight, cut, type Part, type Planted } from "./parts.ts";
import { backendOf, Frames, type Message, sqlStateOfError, statusOf } from "./wire.ts";

/** Is notified of what happens on the sockets, and decides what is held. */
export interface Gate {
  readonly closed: boolean;
  readonly rewrite: Planted | undefined;
  /** Something has happened that somebody may wait for. */
  noted(): void;
  /** A flight waits. */
  arrived(wire: Wire): void;
  /** The server has refused a statement. */
  refused(wire: Wire, sqlState: string): void;
  left(wire: Wire): void;
}

/** What comes of a held flight, beside being delivered. */
type FlightEnd = "plain" | "reply_lost" | "orphan";

export interface Flight extends CutFlight {
  /** Index of the next part to be delivered. */
  next: number;
  /** What is on its way or waits in the server: answers that are still to come. */
  awaiting: { executes: number; isLast: boolean } | null;
  outcome: FlightEnd;
  /** Ends the client's patience with it. */
  readonly giveUp: (() => void) | null;
}

/** One connection. */
export class Wire {
  readonly socket = new Socket();
  readonly session: number;
  pid = 0;
  flight: Flight | null = null;
  /** Known to wait for a lock of another session, as of the last look. */
  blocked = false;
  /** Its backend was asked to end. */
  dying = false;
  #ready = false;
  #closed = false;
  #inTransaction = false;
  readonly #gate: Gate;
  readonly #patience: () => (() => void) | null;
  readonly #incoming = new Frames();
  readonly #outgoing = new Frames();
  #collected: Message[] = [];
  readonly #write: (bytes: Uint8Array) => void;
  readonly #destroy: () => void;

  constructor(session: number, gate: Gate, patience: () => (() => void) | null) {
    this.session = session;
    this.#gate = gate;
    this.#patience = patience;
    const { socket } = this;
    const [write, destroy, emit] = [
      socket.write.bind(socket),
      socket.destroy.bind(socket),
      socket.emit.bind(socket),
    ];
    this.#write = (bytes) => void write(bytes);
    this.#destroy = () => void destroy();
    const gated = ((bytes: Uint8Array, ...rest: never[]) => {
      if (this.#passes(bytes)) return write(bytes, ...rest);
      this.#collect(bytes);
      return true;
    }) as Socket["write"];
    // Node's `connect` puts its own `write` back.
    Object.defineProperty(socket, "write", { get: () => gated, set: () => {} });
    socket.destroy = ((error?: Error) => {
      // The client has given up: what it has sent is the network's now.
      if (this.flight?.outcome === "orphan") return socket;
      return destroy(error);
    }) as Socket["destroy"];
    socket.emit = ((event: string, ...args: unknown[]) => {
      if (event === "data" && !this.#receive(args[0] as Buffer)) return true;
      // The server has gone: nothing of it is left to arrive.
      if (event === "end" && this.flight?.outcome === "orphan") this.flight = null;
      const wasEmitted = Reflect.apply(emit, undefined, [event, ...args]) as boolean;
      if (event === "close") this.#leave();
      if (event === "data") this.#gate.noted();
      return wasEmitted;
    }) as Socket["emit"];
  }

  /** Something is on its way to or from the server. */
  get busy(): boolean {
    return !this.#closed && (!this.#ready || this.dying || this.flight?.awaiting != null);
  }

  /** Its next part waits to be let go. */
  get held(): Part | null {
    const { flight } = this;
    if (flight === null || this.dying || flight.awaiting !== null) return null;
    return flight.parts[flight.next] ?? null;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Delivers the next part of its flight. */
  deliver(): void {
    const { flight } = this;
    const part = flight?.parts[flight.next];
    if (flight === null || part === undefined) throw new TypeError("Nothing is held");
    flight.next += 1;
    flight.awaiting = { executes: part.executes, isLast: part.isLast };
    this.blocked = false;
    this.#write(part.bytes);
  }

  /** Cuts the connection; the server notices. */
  cutOff(): void {
    this.flight = null;
    this.#destroy();
  }

  #passes(bytes: Uint8Array): boolean {
    // Before the server is ready for the first time, and when the client takes its leave.
    return !this.#ready || bytes[0] === 0x58;
  }

  #collect(bytes: Uint8Array): void {
    for (const message of this.#outgoing.push(bytes)) {
      this.#collected.push(message);
      if (message.type !== "S" && message.type !== "Q") continue;
      const flight = cut(this.#collected, this.#inTransaction, this.#gate.rewrite);
      this.#collected = [];
      this.flight = { ...flight, next: 0, awaiting: null, outcome: "plain", giveUp: this.#patience() };
      if (this.#gate.closed) this.#gate.arrived(this);
      else this.#deliverAll();
    }
  }

  /** Whatever is left of the flight, at once. */
  #deliverAll(): void {
    const { flight } = this;
    if (flight === null) return;
    const rest = flight.parts.slice(flight.next);
    flight.next = flight.parts.length;
    flight.awaiting = { executes: 0, isLast: true };
    this.#write(Buffer.concat(rest.map(({ bytes }) => bytes)));
  }

  /** False: the client must not get it. */
  #receive(chunk: Buffer): boolean {
    const lost = this.flight !== null && this.flight.outcome !== "plain";
    const messages = this.#incoming.push(chunk);
    for (const message of messages) this.#understand(message);
    if (lost) this.#gate.noted();
    return !lost;
  }

  #understand(message: Message): void {
    switch (message.type) {
      case "K":
        this.pid = backendOf(message);
        return;
      case "C":
      case "I":
      case "s":
        this.#answered();
        return;
      case "E":
        this.#failed(message);
        return;
      case "Z":
        this.#ready = true;
        this.#inTransaction = statusOf(message) !== "I";
        this.#over();
        return;
      default:
    }
  }

  #answered(): void {
    const awaiting = this.flight?.awaiting;
    if (this.flight == null || awaiting == null) return;
    awaiting.executes -= 1;
    if (awaiting.executes <= 0 && !awaiting.isLast) this.flight.awaiting = null;
  }

  /** The server skips what is left, up to the Sync. */
  #failed(message: Message): void {
    this.#gate.refused(this, sqlStateOfError(message));
    if (this.flight !== null && !this.dying && this.flight.next < this.flight.parts.length) {
      this.#deliverAll();
    } else if (this.flight?.awaiting != null) this.flight.awaiting.isLast = true;
  }

  #over(): void {
    const outcome = this.flight?.outcome;
    this.flight = null;
    this.blocked = false;
    if (outcome === "reply_lost" || outcome === "orphan") this.#destroy();
  }

  #leave(): void {
    this.#closed = true;
    this.flight = null;
    this.#gate.left(this);
    this.#gate.noted();
  }
}
