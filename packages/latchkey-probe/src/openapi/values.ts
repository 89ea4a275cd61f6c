/** Values that a document's schemas allow: its examples, otherwise values made by openapi-sampler. */
import sampler from "openapi-sampler";
import { type Document, DocumentError, isObject, type JsonObject, resolved } from "./document.ts";

/** The sampler's value for `format: email`; many services require a new one each time. */
const sampledEmail = "user@example.com";
const newEmail = "user-{{uuid}}@example.com";

export interface Bodies {
  readonly contentType: string;
  readonly body: string;
  /** A second example in the document. */
  readonly other: string | null;
}

/** Bodies for an operation; a text gives the reason why there are none. */
export function bodiesOf(document: Document, requestBody: JsonObject): Bodies | string {
  const content = Object.entries(resolved(document, requestBody.content));
  const found = content.find(([type]) => /[/+]json\b/iu.test(type)) ?? content.find(([type]) => isForm(type));
  if (found === undefined) {
    return `its body is of type ${content.map(([type]) => type).join(", ") || "none"}, and only JSON and forms can be generated`;
  }
  const [contentType, given] = found;
  const [value, other] = examplesOf(document, resolved(document, given));
  if (value === undefined) return "its body has neither an example nor a schema";
  const write = isForm(contentType) ? formText : JSON.stringify;
  return { contentType, body: write(value), other: other === undefined ? null : write(other) };
}

function isForm(contentType: string): boolean {
  return contentType.toLowerCase().startsWith("application/x-www-form-urlencoded");
}

/** The examples of a media type or a parameter, or one made of its schema. */
function examplesOf(document: Document, holder: JsonObject): readonly unknown[] {
  const named = Object.values(resolved(document, holder.examples)).map(
    (each) => resolved(document, each).value,
  );
  const examples = [holder.example, ...named].filter((each) => each !== undefined);
  if (examples.length > 0) return examples;
  const schema = resolved(document, holder.schema);
  return Object.keys(schema).length === 0 ? [] : [sampled(document, schema)];
}

function sampled({ root }: Document, schema: JsonObject): unknown {
  try {
    return withNewEmails(sampler.sample(schema, { skipReadOnly: true, quiet: true }, root));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new DocumentError(`no value can be generated from its schema: ${why}`, { cause: error });
  }
}

function withNewEmails(value: unknown): unknown {
  if (value === sampledEmail) return newEmail;
  if (Array.isArray(value)) return value.map(withNewEmails);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withNewEmails(member)]));
}

function formText(value: unknown): string {
  const fields = isObject(value) ? Object.entries(value) : [];
  const texts = Object.fromEntries(fields.map(([name, field]) => [name, plain(field)]));
  const text = new URLSearchParams(texts).toString();
  // Placeholders must stay readable.
  return text.replaceAll("%7B%7Buuid%7D%7D", "{{uuid}}");
}

/** The value of a parameter from the document's example, default or schema; null if only the schema's type is known. */
export function exampleOf(document: Document, definition: JsonObject): string | null {
  const schema = resolved(document, definition.schema);
  const holder = { ...definition, schema: {} };
  const [example] = examplesOf(document, holder);
  const known =
    example ??
    schema.example ??
    schema.default ??
    schema.const ??
    firstOf(schema.examples) ??
    firstOf(schema.enum);
  return known === undefined ? null : plain(known);
}

export function sampledValue(document: Document, definition: JsonObject): string {
  return plain(sampled(document, resolved(document, definition.schema)));
}

function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : undefined;
}

function plain(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
