/** The clients under test: as their users get them, and with the settings that docs/clients.md recommends. */
import axios from "axios";
import axiosRetry from "axios-retry";
import got from "got";
import ky from "ky";
import { Agent, type Dispatcher, RetryAgent, request } from "undici";
import { createClient } from "../../packages/latchkey-client/src/index.ts";
import { api as axiosApi } from "./settings/axios.ts";
import { fetchAgain } from "./settings/fetch.ts";
import { api as gotApi } from "./settings/got.ts";
import { api as kyApi } from "./settings/ky.ts";
import { openaiAt } from "./settings/openai.ts";
import { stripeAt } from "./settings/stripe.ts";
import { retryAgent } from "./settings/undici.ts";

/** One thing that a user wants: every attempt at it carries the same. */
export interface Intention {
  readonly port: number;
  readonly tenant: string;
  readonly key: string;
  readonly item: string;
  /** Null: the client's own. */
  readonly timeoutMs: number | null;
}

/** What the client gives its user when it does not throw. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export interface Client {
  /** Names the row of the table. */
  readonly name: string;
  readonly policy: "ietf" | "stripe";
  /** Its users take an answer for a success. */
  readonly answersAreResults: boolean;
  send(wish: Intention): Promise<Answer>;
}

/** Its body may be anything, stripe-node's forms included. */
const path = "/slow-tx";
const urlOf = ({ port }: Intention) => `http://127.0.0.1:${port}${path}`;
const orderOf = ({ item }: Intention) => ({ item, amount: 1 });
const headersOf = ({ tenant, key }: Intention) => ({ "X-Tenant": tenant, "Idempotency-Key": key });
const jsonOf = (wish: Intention) => ({
  method: "POST",
  headers: { ...headersOf(wish), "Content-Type": "application/json" },
  body: JSON.stringify(orderOf(wish)),
});

const generic = { policy: "ietf", answersAreResults: true } as const;

export const clients: readonly Client[] = [
  {
    ...generic,
    name: "fetch",
    answersAreResults: false,
    async send(wish) {
      const signal = wish.timeoutMs === null ? null : AbortSignal.timeout(wish.timeoutMs);
      const response = await fetch(urlOf(wish), { ...jsonOf(wish), signal });
      return { status: response.status, body: await response.json() };
    },
  },
  {
    ...generic,
    name: "fetch, in a loop",
    answersAreResults: false,
    async send(wish) {
      const limits = wish.timeoutMs === null ? {} : { timeoutMs: wish.timeoutMs };
      const response = await fetchAgain(urlOf(wish), jsonOf(wish), limits);
      return { status: response.status, body: await response.json() };
    },
  },
  {
    ...generic,
    name: "latchkey-client",
    answersAreResults: false,
    async send(wish) {
      const limits = wish.timeoutMs === null ? {} : { attemptLimitMs: wish.timeoutMs };
      const client = createClient({ newKey: () => wish.key, ...limits });
      const { method, body } = jsonOf(wish);
      const headers = { "X-Tenant": wish.tenant, "Content-Type": "application/json" };
      const response = await client.fetch(urlOf(wish), { method, headers, body });
      return { status: response.status, body: await response.json() };
    },
  },
  { ...generic, name: "axios", send: (wish) => sendWithAxios(axios.create(), wish) },
  { ...generic, name: "axios-retry", send: (wish) => sendWithAxios(withAxiosRetry(), wish) },
  { ...generic, name: "axios-retry, set", send: (wish) => sendWithAxios(axiosApi, wish) },
  { ...generic, name: "got", send: (wish) => sendWithGot(got, wish) },
  { ...generic, name: "got, set", send: (wish) => sendWithGot(gotApi, wish) },
  { ...generic, name: "ky", send: (wish) => sendWithKy(ky, wish) },
  { ...generic, name: "ky, set", send: (wish) => sendWithKy(kyApi, wish) },
  {
    ...generic,
    name: "undici RetryAgent",
    answersAreResults: false,
    send: (wish) => sendWithUndici(new RetryAgent(agentOf(wish)), wish),
  },
  {
    ...generic,
    name: "undici RetryAgent, set",
    answersAreResults: false,
    send: (wish) => sendWithUndici(retryAgent(wish.timeoutMs ?? undefined), wish),
  },
  { name: "stripe", policy: "stripe", answersAreResults: true, send: (wish) => sendWithStripe(wish, {}) },
  {
    name: "stripe, no retries",
    policy: "stripe",
    answersAreResults: true,
    send: (wish) => sendWithStripe(wish, { maxNetworkRetries: 0 }),
  },
  { ...generic, name: "openai", send: sendWithOpenai },
];

function withAxiosRetry() {
  const api = axios.create();
  axiosRetry(api);
  return api;
}

async function sendWithAxios(api: ReturnType<typeof axios.create>, wish: Intention): Promise<Answer> {
  const limits = wish.timeoutMs === null ? {} : { timeout: wish.timeoutMs };
  const { status, data } = await api.post(urlOf(wish), orderOf(wish), {
    headers: headersOf(wish),
    ...limits,
  });
  return { status, body: data };
}

async function sendWithGot(api: typeof got, wish: Intention): Promise<Answer> {
  const limits = wish.timeoutMs === null ? {} : { timeout: { request: wish.timeoutMs } };
  const answer = await api.post(urlOf(wish), { json: orderOf(wish), headers: headersOf(wish), ...limits });
  return { status: answer.statusCode, body: JSON.parse(answer.body) };
}

async function sendWithKy(api: typeof ky, wish: Intention): Promise<Answer> {
  const limits = wish.timeoutMs === null ? {} : { timeout: wish.timeoutMs };
  const answer = await api.post(urlOf(wish), { json: orderOf(wish), headers: headersOf(wish), ...limits });
  return { status: answer.status, body: await answer.json() };
}

function agentOf({ timeoutMs }: Intention): Agent {
  return new Agent(timeoutMs === null ? {} : { headersTimeout: timeoutMs });
}

async function sendWithUndici(dispatcher: Dispatcher, wish: Intention): Promise<Answer> {
  const { method: _, ...sent } = jsonOf(wish);
  const { statusCode, body } = await request(urlOf(wish), { ...sent, method: "POST", dispatcher });
  return { status: statusCode, body: await body.json() };
}

async function sendWithStripe(wish: Intention, options: { maxNetworkRetries?: number }): Promise<Answer> {
  const body = await stripeAt("127.0.0.1", wish.port).rawRequest("POST", path, orderOf(wish), {
    ...options,
    idempotencyKey: wish.key,
    additionalHeaders: { "X-Tenant": wish.tenant },
    ...(wish.timeoutMs !== null && { timeout: wish.timeoutMs }),
  });
  return { status: body.lastResponse.statusCode, body };
}

async function sendWithOpenai(wish: Intention): Promise<Answer> {
  const api = openaiAt(`http://127.0.0.1:${wish.port}`);
  const limits = wish.timeoutMs === null ? {} : { timeout: wish.timeoutMs };
  const sent = api.post<unknown>(path, { body: orderOf(wish), headers: headersOf(wish), ...limits });
  const { data, response } = await sent.withResponse();
  return { status: response.status, body: data };
}
