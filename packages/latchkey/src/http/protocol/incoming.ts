/** A request, as an adapter hands it to the exchange. */
export interface Incoming {
  readonly method: string;
  /** Path and query as received (`/orders/7?dry=1`); the concrete path, not the route's template. */
  readonly target: string;
  /** Which of several routes with this path it is, where the framework tells them by something else: by a version, a host. */
  readonly variant?: string | undefined;
  header(name: string): HeaderLines;
  /** Makes the body available, to Latchkey as bytes and to the handler as its framework does. Called at most once. */
  readBody(limitBytes: number): BodyReading | Promise<BodyReading>;
}

export interface HeaderLines {
  /** One value per field line, as latin-1 text; none where the header is absent. */
  readonly lines: readonly string[];
  /** Whether the framework has already joined the lines with commas. */
  readonly joined: boolean;
}

export type BodyReading =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  /** Other code has read the bytes and kept only this value; `remedy` says what the service's authors can do. */
  | { readonly kind: "parsed"; readonly value: unknown; readonly remedy: string }
  /** Other code has read the bytes and kept nothing. */
  | { readonly kind: "consumed"; readonly remedy: string }
  | { readonly kind: "too-large" };
