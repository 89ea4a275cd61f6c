/** A request in the form in which an adapter passes it to the exchange. */
export interface Incoming {
  readonly method: string;
  /** Path and query as received (`/orders/7?dry=1`); the concrete path, not the route's template. */
  readonly target: string;
  /** Distinguishes routes with the same path that the framework selects by something else, such as a version or a host. */
  readonly variant?: string | undefined;
  header(name: string): HeaderLines;
  /** Reads the body: as bytes for Latchkey, and as usual in the framework for the handler. Called at most once. */
  readBody(limitBytes: number): BodyReading | Promise<BodyReading>;
}

export interface HeaderLines {
  /** One value per field line, as latin-1 text; none if the header is absent. */
  readonly lines: readonly string[];
  /** Whether the framework has already joined the lines with commas. */
  readonly joined: boolean;
}

export type BodyReading =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  /** Other code has read the bytes and kept only this value; `remedy` tells the service's authors what to change. */
  | { readonly kind: "parsed"; readonly value: unknown; readonly remedy: string }
  /** Other code has read the bytes and kept nothing. */
  | { readonly kind: "consumed"; readonly remedy: string }
  | { readonly kind: "too-large" };
