/** Uploads that a multipart parser has read: its fields, and the files that it has put beside them. */
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
 * What a fingerprint can be made of. Null where two uploads could not be told apart: a file's bytes are not here, since a
 * storage of the app's own has them; something is in a shape that no parser known here leaves; or nothing is here at all.
 *
 * @param holders where multipart parsers leave `file` and `files`: multer, express-fileupload, connect-multiparty, @koa/multer,
 * koa-body
 */
export async function uploadedForm(
  fields: unknown,
  holders: readonly object[],
): Promise<{ readonly fields: unknown; readonly files: unknown } | null> {
  const found = new Set(holders.flatMap((holder) => ["file", "files"].map((name) => heldIn(holder, name))));
  if (isPlaceholder(fields ?? null) && [...found].every(isPlaceholder)) return null;
  try {
    return { fields: describedField(fields ?? null, []), files: await describedFiles([...found], []) };
  } catch (error) {
    if (error instanceof NotCovered) return null;
    throw error;
  }
}

/** Some frameworks have methods of these names. */
function heldIn(holder: object, name: string): unknown {
  const held: unknown = Reflect.get(holder, name) ?? null;
  return typeof held === "function" ? null : held;
}

class NotCovered extends Error {}

/**
 * A client chooses what is in a form's fields, so nothing in them is taken for a file that a parser has written. Bytes are;
 * and the parts of @fastify/multipart, each of which refers to the whole form.
 *
 * @param around the objects that this one is in
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

/** @throws {NotCovered} for what is inside itself. */
function within(around: readonly object[], value: object): readonly object[] {
  if (around.includes(value)) throw new NotCovered();
  return [...around, value];
}

type Loose = Readonly<Record<string, unknown>>;

/** No client can send an object that refers to the object it is in. */
function isPart(value: object): value is Loose {
  const { fieldname, fields } = value as Loose;
  return (
    typeof fieldname === "string" && typeof fields === "object" && fields !== null && fieldname in fields
  );
}

/** A file, a list of files, or such by the names of their fields. Anything else is a shape of which nothing is known. */
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

/** By what is in it: a client need not say of which type a file is. */
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

/** multiparty keeps the header lines of the part. */
function sentType(headers: unknown): string | null {
  if (typeof headers !== "object" || headers === null) return null;
  return textOrNull(Reflect.get(headers, "content-type"));
}

/** A parser that writes to a file leaves no bytes beside it, or an empty buffer. */
async function fileDigest(file: Loose): Promise<string> {
  const path = pathMembers
    .map((member) => file[member])
    .find((text) => typeof text === "string" && text !== "");
  if (typeof path === "string") return digestOfPath(path);
  const bytes = byteMembers.map((member) => file[member]).find((held) => held instanceof Uint8Array);
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
