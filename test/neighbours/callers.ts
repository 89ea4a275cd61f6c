/** How tests and platforms ask an app without a port: supertest, inject, app.request, node-mocks-http. */
import supertest from "supertest";
import {
  type HttpAnswer,
  type HttpCall,
  newKey,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import type { Served } from "./served.ts";
import type { Traits } from "./table.ts";

export function bySupertest(listener: unknown): Served {
  return {
    close: async () => {},
    async call(call) {
      const { headers, body } = messageOf(call);
      const answer = await supertest(listener as Parameters<typeof supertest>[0])
        .post("/run")
        .set(headers)
        .send(body)
        .buffer(true)
        .parse((res, done) => {
          const chunks: Buffer[] = [];
          res.on("data", (chunk) => chunks.push(chunk)).on("end", () => done(null, Buffer.concat(chunks)));
        });
      return answerOf(
        answer.status,
        answer.headers,
        Buffer.isBuffer(answer.body) ? answer.body : Buffer.alloc(0),
      );
    },
  };
}

/** The request as these libraries take it. */
export function messageOf(call: HttpCall): {
  readonly headers: Record<string, string>;
  readonly body: string;
} {
  const {
    key = newKey(),
    tenant = "tenant-1",
    contentType = "application/json",
    body = '{"amount":1}',
  } = call;
  const given = { "Idempotency-Key": key, "X-Tenant": tenant, "Content-Type": contentType };
  const headers = Object.entries(given).filter((line): line is [string, string] => line[1] !== null);
  return { headers: Object.fromEntries([...headers, ...(call.headers ?? [])]), body: String(body) };
}

type Fields = Readonly<Record<string, unknown>> | Iterable<readonly [string, string]>;

/** An answer in the form in which the judge compares it. */
export function answerOf(status: number, fields: Fields, body: Buffer, statusText = ""): HttpAnswer {
  const entries =
    Symbol.iterator in fields ? [...(fields as Iterable<[string, string]>)] : Object.entries(fields);
  const lines = entries.flatMap(([name, value]) =>
    [value].flat().map((each): [string, string] => [name.toLowerCase(), String(each)]),
  );
  return {
    status,
    statusText,
    lines,
    body,
    header: (name) => lines.find(([each]) => each === name.toLowerCase())?.[1] ?? null,
    json: () => JSON.parse(body.toString()),
  };
}

export async function answerOfFetch(response: Response): Promise<HttpAnswer> {
  return answerOf(response.status, response.headers, Buffer.from(await response.arrayBuffer()));
}

export const callers: Traits<"callers"> = { callers: {} };
