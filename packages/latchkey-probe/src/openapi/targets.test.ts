import { expect, test } from "vitest";
import { profiles } from "../profiles.ts";
import { type DescribedOptions, describedTargets } from "./targets.ts";

const options: DescribedOptions = {
  base: new URL("http://127.0.0.1:3000/v1/"),
  keyHeader: "Idempotency-Key",
  profile: profiles.ietf,
  key: null,
  routes: [],
  parameters: new Map(),
};

function described(paths: object, more: Partial<DescribedOptions> = {}, rest: object = {}) {
  const text = JSON.stringify({ openapi: "3.1.0", paths, ...rest });
  return describedTargets(text, { ...options, ...more });
}

const json = (media: object) => ({ requestBody: { content: { "application/json": media } } });
const amount = json({ example: { amount: 1 } });
const keyed = (required: boolean) => ({
  parameters: [{ name: "idempotency-key", in: "header", required, schema: { type: "string" } }],
});

test("YAML and JSON are read, and the address is the one that was named, whatever servers says", () => {
  const text = `
openapi: 3.0.3
servers: [{ url: "https://elsewhere.example/api" }]
paths:
  /orders:
    post:
      requestBody:
        content:
          application/json:
            example: { amount: 1 }
`;
  const { targets } = describedTargets(text, options);
  expect(targets.map(({ url }) => url.href)).toEqual(["http://127.0.0.1:3000/v1/orders"]);
  expect(targets[0]).toMatchObject({ name: "POST /orders", body: '{"amount":1}', otherBody: '{"amount":2}' });
});

test.each([
  ["a host", "//elsewhere.example/orders"],
  ["an address", "/https://elsewhere.example/orders"],
])("a path that looks like %s stays at the address", (_, path) => {
  const { targets } = described({ [path]: { post: amount } });
  expect(targets.map(({ url }) => url.origin)).toEqual(["http://127.0.0.1:3000"]);
});

test("a path that leads above the address is left out, and so is a schema in another file", () => {
  const elsewhere = json({ schema: { $ref: "https://elsewhere.example/schema.json" } });
  const nested = json({ schema: { type: "object", properties: { a: { $ref: "other.json" } } } });
  const { targets, leftOut } = described({
    "/../admin": { post: amount },
    "/a": { post: elsewhere },
    "/b": { post: nested },
  });
  expect(targets).toEqual([]);
  expect(leftOut.map(({ reason }) => reason)).toEqual([
    "its path leads above the given address",
    expect.stringContaining("bundle it into one first"),
    expect.stringContaining("no value can be generated from its schema"),
  ]);
});

test("without a route that has the key's header, every POST and PATCH is taken", () => {
  const all = { post: amount, patch: amount, put: amount, delete: {}, get: {} };
  const { targets, leftOut } = described({ "/orders": all });
  expect(targets.map(({ name }) => name)).toEqual(["POST /orders", "PATCH /orders"]);
  expect(leftOut.map(({ name }) => name)).toEqual(["PUT /orders", "DELETE /orders"]);
});

test("where routes have the key's header, those alone are taken, with their need of a key", () => {
  const paths = {
    "/orders": { post: { ...amount, ...keyed(true) } },
    "/notes": { put: { ...amount, ...keyed(false) } },
    "/search": { post: amount },
  };
  const { targets, leftOut } = described(paths);
  expect(targets.map(({ name, key }) => `${name} ${key}`)).toEqual([
    "POST /orders required",
    "PUT /notes optional",
  ]);
  expect(leftOut).toEqual([{ name: "POST /search", reason: "the document gives it no Idempotency-Key" }]);
  expect(described(paths, { key: "any" }).targets[0]?.key).toBe("any");
});

test("named routes are taken, and an unknown one is an error that lists what there is", () => {
  const paths = { "/orders": { post: amount, put: amount } };
  expect(described(paths, { routes: ["PUT /orders"] }).targets.map(({ name }) => name)).toEqual([
    "PUT /orders",
  ]);
  expect(() => described(paths, { routes: ["POST /order"] })).toThrow("it has POST /orders, PUT /orders");
});

test("a body is made of a schema with references, without what is read only, and e-mails are new each time", () => {
  const Customer = {
    type: "object",
    required: ["email", "age"],
    properties: {
      id: { type: "string", readOnly: true },
      email: { type: "string", format: "email" },
      age: { type: "integer", minimum: 18 },
    },
  };
  const schema = { $ref: "#/components/schemas/Customer" };
  const { targets } = described(
    { "/customers": { post: json({ schema }) } },
    {},
    { components: { schemas: { Customer } } },
  );
  expect(JSON.parse(targets[0]?.body ?? "")).toEqual({ email: "user-{{uuid}}@example.com", age: 18 });
  expect(JSON.parse(targets[0]?.otherBody ?? "")).toEqual({ email: "user-{{uuid}}@example.com", age: 19 });
});

test("a second example is the other body", () => {
  const examples = { one: { value: { plan: "a" } }, two: { value: { plan: "b" } } };
  const { targets } = described({ "/plans": { post: json({ examples }) } });
  expect(targets[0]).toMatchObject({ body: '{"plan":"a"}', otherBody: '{"plan":"b"}' });
});

test("forms are written as forms", () => {
  const example = { amount: 1, note: "a b" };
  const { targets } = described({
    "/pay": { post: { requestBody: { content: { "application/x-www-form-urlencoded": { example } } } } },
  });
  expect(targets[0]).toMatchObject({ body: "amount=1&note=a+b" });
  expect(targets[0]?.headers).toEqual([["Content-Type", "application/x-www-form-urlencoded"]]);
});

test("parameters come from the operator, an example, or a schema; an unknown one of the path leaves the route out", () => {
  const parameters = [
    { name: "id", in: "path", required: true, schema: { type: "string" } },
    { name: "verbose", in: "query", required: true, schema: { type: "boolean", default: true } },
    { name: "page", in: "query", schema: { type: "integer" } },
    { name: "X-Region", in: "header", required: true, example: "eu" },
  ];
  const paths = { "/orders/{id}/capture": { parameters, post: amount } };
  expect(described(paths).leftOut[0]?.reason).toBe("its id is not known; pass --param id=…");
  const [target] = described(paths, { parameters: new Map([["id", "a/b"]]) }).targets;
  expect(target?.url.href).toBe("http://127.0.0.1:3000/v1/orders/a%2Fb/capture?verbose=true");
  expect(target?.headers).toContainEqual(["X-Region", "eu"]);
});

test.each([
  ["swagger: '2.0'", "Swagger 2"],
  ["openapi: 2.9", "openapi"],
  ["[1]", "neither a JSON nor a YAML object"],
  ["a: [", "Flow sequence"],
  ['{"openapi":"3.1.0","paths":{"/a":{"$ref":"other.yaml#/a"}}}', "bundle it into one"],
  ['{"openapi":"3.1.0","paths":{"/a":{"$ref":"#/b"}},"b":{"$ref":"#/b"}}', "form a circle"],
])("what is no document, or needs another file, is refused: %s", (text, message) => {
  expect(() => describedTargets(text, options)).toThrow(message);
});

test("a body that cannot be made leaves the route out, with the reason", () => {
  const { leftOut } = described({
    "/a": { post: { requestBody: { content: { "text/xml": { schema: { type: "string" } } } } } },
    "/b": { post: json({}) },
  });
  expect(leftOut.map(({ reason }) => reason)).toEqual([
    "its body is of type text/xml, and only JSON and forms can be generated",
    "its body has neither an example nor a schema",
  ]);
});
