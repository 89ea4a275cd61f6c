/** The part of autocannon that the bench uses; the package brings no types. */
declare module "autocannon" {
  import type { EventEmitter } from "node:events";

  /** The result's events: `response` with the client, the status, the size and the time in milliseconds. */
  function autocannon(options: autocannon.LoadOptions): EventEmitter & PromiseLike<autocannon.LoadResult>;

  namespace autocannon {
    interface LoadRequest {
      readonly method?: string;
      readonly path?: string;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
      /** Called before each sending of this request. */
      readonly setupRequest?: (request: LoadRequest) => LoadRequest;
    }

    interface LoadOptions {
      readonly url: string;
      readonly connections: number;
      /** Seconds; the end is looked for every `sampleInt` milliseconds. */
      readonly duration: number;
      readonly sampleInt: number;
      readonly requests: readonly LoadRequest[];
    }

    interface LoadResult {
      readonly start: Date;
      readonly finish: Date;
      readonly errors: number;
      readonly timeouts: number;
      readonly non2xx: number;
    }
  }

  export = autocannon;
}
