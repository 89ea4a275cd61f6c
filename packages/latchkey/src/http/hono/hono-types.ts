/** The part of Hono that Latchkey uses. Apps keep their own types by annotating `tenant: (c: Context<Env>) => …`. */

/** Any value: Hono's own types for values that an app has not typed. */
type Loose = ReturnType<JSON["parse"]>;

/** A context, if the app has not annotated its own type. */
export interface HonoContext {
  readonly req: HonoRequest;
  readonly env: Loose;
  readonly var: Loose;
  get res(): Response;
  set res(response: Response | undefined);
  get(key: string): Loose;
  set(key: string, value: unknown): void;
  header(name: string, value?: string, options?: { append?: boolean }): void;
  status(code: Loose): void;
  body(data: Loose, status?: Loose, headers?: Loose): Response;
  json(value: Loose, status?: Loose, headers?: Loose): Response;
  text(text: string, status?: Loose, headers?: Loose): Response;
}

export interface HonoRequest {
  raw: Request;
  /** Hono declares values here but stores promises of them. */
  readonly bodyCache: {
    readonly arrayBuffer?: ArrayBuffer | Promise<ArrayBuffer>;
    readonly text?: string | Promise<string>;
    readonly formData?: FormData | Promise<FormData>;
  };
  readonly method: string;
  readonly path: string;
  readonly url: string;
  header(name: string): string | undefined;
  param(name: string): Loose;
  query(name: string): string | undefined;
  json(): Promise<Loose>;
  text(): Promise<string>;
  arrayBuffer(): Promise<ArrayBuffer>;
}
