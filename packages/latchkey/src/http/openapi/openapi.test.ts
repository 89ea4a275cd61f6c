import fastifySwagger from "@fastify/swagger";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020 } from "ajv/dist/2020.js";
import Fastify, { type FastifyRequest } from "fastify";
import { describe, expect, test } from "vitest";
import { newKey, send } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { Operation } from "../../operations/operation.ts";
import { acp } from "../../operations/policies/acp.ts";
import { stripe } from "../../operations/policies/stripe.ts";
import { ucp } from "../../operations/policies/ucp.ts";
import { memoryStore } from "../../stores/memory.ts";
import { fastifyProtect } from "../fastify/fastify.ts";
import { describeIdempotency, type IdempotencyDescription } from "./openapi.ts";

type Loose = ReturnType<JSON["parse"]>;

const http = { singleTenant: true } as const;
const run = async () => ({ status: 201, body: null });

function one(more: Parameters<typeof createLatchkey>[0] | object = {}) {
  return createLatchkey({ store: memoryStore(), ...more });
}

function documentOf(operation: object, more: object = {}, openapi = "3.0.3"): Loose {
  const info = { title: "Orders", version: "1" };
  return deepFrozen({ openapi, info, paths: { "/orders/{id}": { post: operation, ...more } } });
}

function deepFrozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(deepFrozen);
  return value;
}

const plain = {
  parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }],
  responses: { 201: { description: "Made" } },
};

async function described(
  operation: Operation,
  description: Omit<IdempotencyDescription<Loose>, "routes">,
  document: Loose = documentOf(plain),
) {
  const result: Loose = describeIdempotency(document, {
    ...description,
    routes: { "POST /orders/{id}": operation },
  });
  expect(await new Validator().validate(structuredClone(result))).toEqual({ valid: true });
  return result.paths["/orders/{id}"].post;
}

const codesIn = (response: Loose) =>
  [...String(response?.description).matchAll(/`([a-z-]+)`/gu)].map(([, code]) => code);

describe("the description", () => {
  test.each(["3.0.3", "3.1.1", "3.2.0"])("is valid in OpenAPI %s", async (openapi) => {
    const latchkey = one();
    const operation = latchkey.operation("orders.create");
    const post = await described(operation, { latchkey, http }, documentOf(plain, {}, openapi));
    expect(post.parameters.map(({ name }: Loose) => name)).toEqual(["id", "Idempotency-Key"]);
    expect(Object.keys(post.responses)).toEqual(["201", "400", "409", "413", "422", "503"]);
    expect(Object.keys(post.responses[201].headers)).toEqual(["Idempotent-Replayed", "Idempotency-Status"]);
    expect(post["x-idempotency"]).toEqual({
      operation: "orders.create",
      policy: "ietf",
      execution: "transaction",
      key: "required",
      keyScope: "operation",
      retentionMs: 86_400_000,
      forgetAfterMs: 86_400_000,
      reuse: "reject",
      answerLimitBytes: 1_048_576,
      bodyLimitBytes: 1_048_576,
    });
  });

  test("follows policy, execution and options", async () => {
    const limits = { newKeys: { consume: async () => null } };
    const latchkey = one({ policy: stripe, limits });
    const operation = latchkey.operation("orders.create", {
      execution: "lease",
      reuse: "reject",
      retentionMs: 60 * 60 * 1000,
      forgetAfterMs: 48 * 60 * 60 * 1000,
    });
    const options = {
      ...http,
      header: "X-Key",
      replayHeader: "X-Replayed",
      expiresHeader: "X-Expires",
      key: { minLength: 16, maxLength: 64, pattern: /^[a-z]+$/u },
      requestAge: { maxMs: 90_000 },
      inProgress: 429,
      bodyLimitBytes: 2_048,
    } as const;
    const post = await described(operation, { latchkey, http: options });
    const [, key, age] = post.parameters;
    expect(key).toMatchObject({ name: "X-Key", required: false });
    for (const part of ["16 to 64", "^[a-z]+$", "60 minutes", "2 days", "2 KiB", "unprotected"]) {
      expect(key.description).toContain(part);
    }
    expect(age).toMatchObject({
      name: "Repeatability-First-Sent",
      description: expect.stringContaining("90 seconds"),
    });
    expect(Object.keys(post.responses[201].headers)).toEqual([
      "X-Replayed",
      "Idempotency-Status",
      "X-Expires",
    ]);
    const codes = Object.fromEntries(
      Object.entries(post.responses).map(([status, response]) => [status, codesIn(response)]),
    );
    expect(codes).toEqual({
      201: [],
      400: ["invalid-key", "invalid-request-date", "key-misuse"],
      409: ["outcome-unknown"],
      410: ["expired"],
      412: ["request-too-old"],
      413: ["payload-too-large"],
      429: ["in-progress", "too-many-keys"],
      503: ["store-unavailable", "commit-in-doubt"],
    });
    expect(post.responses[429].headers).toHaveProperty("Retry-After");
    const examples = post.responses[400].content["application/problem+json"].examples;
    expect(examples["key-misuse"].value).toMatchObject({ status: 400, error: { type: "idempotency_error" } });
  });

  test.each([
    [acp, "422", "used as sent", ["type", "code", "message"]],
    [ucp, "409", "22 to 255", ["code", "content", "retryable", "safe_new_key", "operation_ref"]],
  ] as const)("the commerce protocols' forms: $name", async (policy, status, key, members) => {
    const latchkey = one({ policy });
    const post = await described(latchkey.operation("checkouts.create"), { latchkey, http });
    expect(post.parameters[1].description).toContain(key);
    const { schema, examples } = post.responses[status].content["application/json"];
    expect(Object.keys(schema.properties)).toEqual(members);
    const validate = new Ajv2020().compile({ ...schema, additionalProperties: false });
    for (const { value } of Object.values<Loose>(examples))
      expect([validate(value), validate.errors]).toEqual([true, null]);
    expect("Idempotency-Key" in post.responses[201].headers).toBe(policy.echoKey);
  });

  test("has 202 for deferred operations, and for `inProgress: 202`", async () => {
    const latchkey = one();
    const deferred = latchkey.operation("reports.create", { execution: "deferred", version: "1", run });
    const leased = latchkey.operation("charges.create", { execution: "lease", version: "1", run });
    const options = { ...http, statusPath: "/operations" };
    const later = await described(deferred, { latchkey, http: options });
    expect(later.responses[202].headers).toHaveProperty("Location");
    expect(codesIn(later.responses[408])).toEqual(["timeout"]);
    expect(codesIn(later.responses[503]), "its request only stores the input").toEqual(["store-unavailable"]);
    const now = await described(leased, { latchkey, http: { ...options, inProgress: 202 } });
    expect(Object.keys(now.responses)).toEqual(["201", "202", "400", "409", "413", "422", "503"]);
    expect(codesIn(now.responses[409])).toEqual(["outcome-unknown"]);
  });

  test("shows problems in the service's own format", async () => {
    const latchkey = one();
    const renderProblem = ({ code }: { code: string }) => ({
      body: JSON.stringify({ error: code }),
      contentType: "application/json; charset=utf-8",
    });
    const post = await described(latchkey.operation("op"), { latchkey, http: { ...http, renderProblem } });
    expect(post.responses[422].content).toEqual({
      "application/json": { examples: { "key-misuse": { value: { error: "key-misuse" } } } },
    });
  });
});

describe("a document's own descriptions are kept:", () => {
  test("responses with the same status, and referenced ones", async () => {
    const latchkey = one();
    const own = {
      ...plain,
      responses: {
        201: { $ref: "#/components/responses/Made~1it" },
        409: { description: "Sold out", content: { "application/json": { schema: { type: "object" } } } },
        422: { description: "" },
        429: { description: "Slow down" },
        404: {
          description: "No such order",
          headers: { "Idempotent-Replayed": { description: "mine", schema: {} } },
        },
        default: { description: "Broken" },
      },
    };
    const responses = { "Made/it": { description: "Made" } };
    const document = { ...documentOf(own, { get: plain }), components: { responses, schemas: { Own: {} } } };
    const result: Loose = describeIdempotency(document, {
      latchkey,
      http,
      routes: {
        "POST /orders/{id}": { operation: latchkey.operation("op"), overrides: { replayHeader: "Replayed" } },
      },
    });
    expect(await new Validator().validate(structuredClone(result))).toEqual({ valid: true });
    const { post, get } = result.paths["/orders/{id}"];
    expect(post.responses[201]).toMatchObject({ description: "Made", headers: { Replayed: {} } });
    expect(post.responses[409].description).toMatch(/^Sold out\n\n- `in-progress`/u);
    expect(Object.keys(post.responses[409].content)).toEqual([
      "application/problem+json",
      "application/json",
    ]);
    expect(post.responses[422].description).toMatch(/^- `key-misuse`/u);
    expect(post.responses[429]).toEqual({ description: "Slow down" });
    expect(post.responses[404].headers["Idempotent-Replayed"].description).toBe("mine");
    expect(post.responses.default).toEqual({ description: "Broken" });
    expect(get).toBe(plain);
    expect(result.components.responses).toBe(responses);
    expect(Object.keys(result.components.schemas)).toEqual(["Own", "IdempotencyProblem"]);
  });

  test.each(["operation", "path", "reference"])("a parameter with the key, of an %s", async (where) => {
    const latchkey = one();
    const parameter = {
      name: "idempotency-key",
      in: "header",
      description: "mine",
      schema: { type: "string" },
    };
    const given = where === "reference" ? { $ref: "#/components/parameters/Key" } : parameter;
    const own = { ...plain, parameters: [...plain.parameters, ...(where === "path" ? [] : [given])] };
    const document = {
      ...documentOf(own, where === "path" ? { parameters: [parameter] } : {}),
      components: { parameters: { Key: parameter } },
    };
    const post = await described(latchkey.operation("op"), { latchkey, http }, document);
    expect(post.parameters).toEqual(own.parameters);
  });

  test("operations without a protected route are unchanged", () => {
    const document = documentOf(plain);
    expect(describeIdempotency(document, { latchkey: one(), http, routes: {} })).toEqual(document);
  });
});

test.each<[string, Loose, Loose, string]>([
  ["Swagger 2", { swagger: "2.0" }, {}, "must be OpenAPI 3.0, 3.1 or 3.2"],
  [
    "a route that is not there",
    documentOf(plain),
    { "POST /orders": {} },
    "has no POST /orders. It has POST /orders/{id}",
  ],
  ["an empty document", { openapi: "3.1.0" }, { "POST /orders": {} }, "It has no operation"],
])("refuses %s", (_, document, routes, message) => {
  const latchkey = one();
  const operation = latchkey.operation("op");
  const all = Object.fromEntries(Object.keys(routes).map((place) => [place, operation]));
  expect(() => describeIdempotency(document, { latchkey, http, routes: all })).toThrow(message);
});

test("a Fastify app's answers match its document", async () => {
  const latchkey = one();
  const placeOrder = latchkey.operation("orders.create", { writes: "none" });
  const options = {
    tenant: ({ headers }: FastifyRequest) => headers["x-tenant"] as string,
    expiresHeader: "Expires-At",
  };
  const app = Fastify({ bodyLimit: 4 * 1024 * 1024 });
  await app.register(fastifySwagger, {
    openapi: { openapi: "3.1.0", info: { title: "Orders", version: "1" } },
  });
  const schema = {
    response: { 201: { type: "object", description: "Made", properties: { made: { type: "boolean" } } } },
  };
  await app.register((scope, _options, done) => {
    const protect = fastifyProtect(scope, latchkey, options);
    void scope.post(
      "/orders",
      { schema },
      protect(placeOrder, async (_request, reply) => reply.code(201).send({ made: true })),
    );
    done();
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  const document: Loose = describeIdempotency(app.swagger(), {
    latchkey,
    http: options,
    routes: { "POST /orders": placeOrder },
  });
  expect(await new Validator().validate(structuredClone(document))).toEqual({ valid: true });
  const { post } = document.paths["/orders"];
  const problem = new Ajv2020().compile(document.components.schemas.IdempotencyProblem);
  const key = newKey();
  const call = (more: object) => send(url, { target: "/orders", key, ...more });
  const answers = [
    await call({}),
    await call({}),
    await call({ body: '{"amount":2}' }),
    await call({ key: null }),
    await call({ key: "a, b" }),
    await call({ key: newKey(), body: JSON.stringify("x".repeat(1024 * 1024)) }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([201, 201, 422, 400, 400, 413]);
  for (const [index, answer] of answers.entries()) {
    const response = post.responses[answer.status];
    const type = answer.header("content-type")?.split(";")[0] ?? "";
    expect(Object.keys(response.content)).toContain(type);
    for (const [name, header] of Object.entries<Loose>(answer.status === 201 ? response.headers : {})) {
      const value = answer.header(name);
      if (name === "Idempotent-Replayed") expect(value).toBe(index === 1 ? header.schema.enum[0] : null);
      if (name === "Expires-At") expect(value).toMatch(/GMT$/u);
    }
    if (answer.status === 201) continue;
    expect([problem(answer.json()), problem.errors]).toEqual([true, null]);
    expect(Object.keys(response.content[type].examples)).toContain(answer.json().code);
  }
  await app.close();
});
