/**
 * The HTTP conformance suite: proves that an adapter keeps the protocol of `latchkey/http/exchange`. It includes no test
 * runner and no framework: the caller passes the runner's function, and a function that serves a route through the adapter.
 */
import type { Execution } from "latchkey";
import { acceptedCases } from "./http-conformance/accepted.ts";
import { answerCases } from "./http-conformance/answers.ts";
import { type Arranged, arrange, arrangeServed, arrangeWrong } from "./http-conformance/arrange.ts";
import type { AppUnderTest, HttpCase, HttpCaseContext, Subject } from "./http-conformance/case.ts";
import { send } from "./http-conformance/client.ts";
import { commerceCases } from "./http-conformance/commerce.ts";
import { failureCases } from "./http-conformance/failures.ts";
import { keyCases } from "./http-conformance/keys.ts";
import { optionCases } from "./http-conformance/options.ts";
import { refusalCases } from "./http-conformance/refusals.ts";
import { requestBodyCases } from "./http-conformance/request-bodies.ts";
import { servedCases } from "./http-conformance/served.ts";
import { servedRefusalCases } from "./http-conformance/served-refusals.ts";
import { statusCases } from "./http-conformance/status.ts";
import type { StoreUnderTest } from "./store-conformance/case.ts";

export interface HttpConformanceOptions<Tx> {
  /** Registers one test, like `test` or `it` of any runner. */
  readonly test: (name: string, body: () => Promise<void>) => void;
  /** Creates one empty store per case. */
  readonly store: () => StoreUnderTest<Tx> | Promise<StoreUnderTest<Tx>>;
  /** Serves the app's route through the adapter, on `node:http`; also the served route, if the app has one. */
  readonly serve: (app: AppUnderTest<Tx>) => Promise<{ readonly url: string; close(): Promise<void> }>;
  /** Whether the adapter sees repeated field lines separately (Node's), or joined (Fetch's `Headers`). */
  readonly seesFieldLines: boolean;
  /** Whether `serve` mounts the adapter in front of the whole app, instead of protecting the route by name. Default false. */
  readonly mounts?: boolean;
  /** Whether the adapter serves operations that own their work. Default: true unless it mounts. */
  readonly serves?: boolean;
  /** Whether the app serves the status resource if its settings have a `statusPath`. Default: the value of `serves`. */
  readonly status?: boolean;
  /** Cases to skip, by name, each with the reason. An unknown name is a `TypeError`. Default: none. */
  readonly skip?: Readonly<Record<string, string>>;
}

const cases: readonly HttpCase[] = [
  ...keyCases,
  ...requestBodyCases,
  ...answerCases,
  ...refusalCases,
  ...failureCases,
  ...commerceCases,
  ...optionCases,
  ...servedCases,
  ...servedRefusalCases,
  ...acceptedCases,
  ...statusCases,
];

/**
 * Registers one test for each case and execution.
 *
 * @throws {TypeError} if `skip` names a case that the suite does not have, or gives no reason
 */
export function httpConformance<Tx>(options: HttpConformanceOptions<Tx>): void {
  const skip = new Map(Object.entries(options.skip ?? {}));
  for (const [name, reason] of skip) {
    if (!cases.some((candidate) => candidate.name === name))
      throw new TypeError(`No case is named "${name}"`);
    if (reason.trim() === "") throw new TypeError(`Skipping "${name}" needs a reason`);
  }
  const serves = options.serves ?? options.mounts !== true;
  const asks = options.status ?? serves;
  const chosen = cases.filter(
    ({ name, served, status }) => !skip.has(name) && (serves || served !== true) && (asks || status !== true),
  );
  for (const each of chosen) {
    const executions: readonly Execution[] = each.execution ? [each.execution] : ["transaction", "lease"];
    for (const execution of executions) {
      options.test(`${each.name} (${execution})`, () => runCase(options, each, execution));
    }
  }
}

async function runCase<Tx>(
  options: HttpConformanceOptions<Tx>,
  { run }: HttpCase,
  execution: Execution,
): Promise<void> {
  const under = await options.store();
  const servers: { close(): Promise<void> }[] = [];
  const open = async ({ app, subject }: Arranged<Tx>): Promise<Subject> => {
    const { path } = app.served ?? app.route;
    const server = await options.serve(app);
    servers.push(server);
    return {
      ...subject,
      url: server.url,
      send(call, signal) {
        const answer = send(server.url, { target: path, ...call }, signal);
        // A failed case leaves pending requests behind; their errors add nothing.
        answer.catch(() => {});
        return answer;
      },
      look(id, call) {
        const target = `${app.settings.statusPath}/${id}`;
        return send(server.url, { method: "GET", target, key: null, body: "", contentType: null, ...call });
      },
    };
  };
  const context: HttpCaseContext = {
    start: async (setup) => open(arrange(under, setup, servers.length)),
    serve: async (setup) => open(arrangeServed(under, setup, servers.length)),
    startWrong: async (route, wrongExecution) => open(arrangeWrong(under, route, wrongExecution)),
    async advance(milliseconds) {
      await under.advance(milliseconds);
    },
    committedRows: execution === "transaction" ? (under.business?.committedRows ?? null) : null,
    seesFieldLines: options.seesFieldLines,
    mounts: options.mounts ?? false,
  };
  try {
    await run(context, execution);
  } finally {
    for (const server of servers) await server.close();
    await under.close();
  }
}
