/** Uploads that a multipart parser has read: their fields and files. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { parseMediaType } from "../../fingerprint/media-type.ts";
import { isOpaque } from "../../fingerprint/opaque.ts";
import { isPlaceholder } from "../protocol/request-body.ts";

export function isMultipart(mediaType: string | null | undefined): boolean {
  return (
    typeof mediaType === "string" && parseMediaType(mediaType).essence?.startsWith("multipart/") === true
  );
}

/**
 * A value for the fingerprint. Null if different uploads could look the same: a file's bytes are in a storage of the app's own,
 * a value has a shape that no known parser produces, or there is nothing at all.
 *
 * @param holders objects on which multipart parsers put `file` and `files`: multer, express-fileupload, connect-multiparty,
 * @koa/multer, koa-body
 */
export async function uploadedForm(
  fields: unknown,
  holders: readonly object[],
): Promise<{ readonly fields: unknown; readonly files: unknown } | null> {
  const found = new Set(holders.flatMap((holder) => ["file", "files"].map((name) => memberOf(holder, name))));
  if (isPlaceholder(fields ?? null) && [...found].every(isPlaceholder)) return null;
  try {
    return { fields: describedField(fields ?? null, []), files: await describedFiles([...found], []) };
  } catch (error) {
    if (error instanceof NotCovered) return null;
    throw error;
  }
}

/** Ignores functions, because some frameworks have methods with these names. */
function memberOf(holder: object, name: string): unknown {
  const value: unknown = Reflect.get(holder, name) ?? null;
  return typeof value === "function" ? null : value;
}

class NotCovered extends Error {}

/**
 * The client controls a form's fields, so no field is taken for a file that a parser wrote to disk. Exceptions are bytes, and
 * the parts of @fastify/multipart, each of which refers to the whole form.
 *
 * @param around the objects that contain this one
 */
function describedField(value: unknown, around: readonly object[]): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) return { digest: digestOf(value) };
  const inside = within(around, value);
  if (Array.isArray(value)) return value.map((each) => describedField(each, inside));
  if (isPart(value)) {
    const { type, value: text, filename, mimetype, _buf: bytes } = value;
    if (type === "field") return { text };
    if (!(bytes instanceof Uint8Array)) throw new NotCovered();
    return { filename: textOrNull(filename), mimetype: textOrNull(mimetype), digest: digestOf(bytes) };
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return value;
  if (isOpaque(value)) throw new NotCovered();
  return Object.entries(value).map(([name, member]) => [name, describedField(member, inside)]);
}

/** @throws {NotCovered} for an object that contains itself. */
function within(around: readonly object[], value: object): readonly object[] {
  if (around.includes(value)) throw new NotCovered();
  return [...around, value];
}

type Loose = Readonly<Record<string, unknown>>;

/** Safe to recognise, because no client can send an object that refers to its own container. */
function isPart(value: object): value is Loose {
  const { fieldname, fields } = value as Loose;
  return (
    typeof fieldname === "string" && typeof fields === "object" && fields !== null && fieldname in fields
  );
}

/** Describes a file, a list of files, or either by field name. Other shapes are not covered. */
async function describedFiles(value: unknown, around: readonly object[]): Promise<unknown> {
  if (value === null || value === undefined) return null;
  if (typeof value !== "object") throw new NotCovered();
  const inside = within(around, value);
  const isList = Array.isArray(value);
  if (!isList && isFile(value)) return describedFile(value);
  if (isOpaque(value)) throw new NotCovered();
  const described: unknown[] = [];
  for (const [name, member] of Object.entries(value)) {
    const files = await describedFiles(member, inside);
    described.push(isList ? files : [name, files]);
  }
  return described;
}

const nameMembers = ["originalname", "originalFilename", "name", "filename"];
const typeMembers = ["mimetype", "type"];
const pathMembers = ["tempFilePath", "filepath", "path"];
const byteMembers = ["buffer", "data"];

/** Any of these members is enough, because a client need not send a file's type. */
function isFile(value: object): value is Loose {
  const has = (member: string) => typeof Reflect.get(value, member) === "string";
  return (
    [...nameMembers, ...typeMembers, ...pathMembers].some(has) ||
    byteMembers.some((member) => Reflect.get(value, member) instanceof Uint8Array)
  );
}

async function describedFile(file: Loose): Promise<unknown> {
  const name = firstText(file, nameMembers);
  const type = firstText(file, typeMembers) ?? sentType(file.headers);
  return { name, type, field: textOrNull(file.fieldname ?? file.fieldName), digest: await fileDigest(file) };
}

function firstText(file: Loose, members: readonly string[]): string | null {
  return textOrNull(members.map((member) => file[member]).find((text) => typeof text === "string"));
}

/** For multiparty, which keeps the header lines of the part. */
function sentType(headers: unknown): string | null {
  if (typeof headers !== "object" || headers === null) return null;
  return textOrNull(Reflect.get(headers, "content-type"));
}

/** The path comes first: a parser that writes to a file leaves no bytes in memory, or an empty buffer. */
async function fileDigest(file: Loose): Promise<string> {
  const path = pathMembers
    .map((member) => file[member])
    .find((text) => typeof text === "string" && text !== "");
  if (typeof path === "string") return digestOfPath(path);
  const bytes = byteMembers.map((member) => file[member]).find((value) => value instanceof Uint8Array);
  if (bytes instanceof Uint8Array) return digestOf(bytes);
  throw new NotCovered();
}

async function digestOfPath(path: string): Promise<string> {
  const digest = createHash("sha256");
  try {
    for await (const chunk of createReadStream(path)) digest.update(chunk as Buffer);
  } catch (cause) {
    throw new NotCovered("A file of the upload cannot be read", { cause });
  }
  return digest.digest("hex");
}

function digestOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
