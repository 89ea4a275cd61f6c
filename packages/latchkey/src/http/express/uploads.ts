/** Uploads that a multipart parser has read: its fields, and the files that it has put beside them. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { parseMediaType } from "../../fingerprint/media-type.ts";

export function isMultipart(mediaType: string | null | undefined): boolean {
  return (
    typeof mediaType === "string" && parseMediaType(mediaType).essence?.startsWith("multipart/") === true
  );
}

/**
 * What a fingerprint can be made of; null where a file's bytes are not here: a storage of the app's own has them.
 *
 * @param holders where multipart parsers leave `file` and `files`: multer, express-fileupload, @koa/multer, koa-body
 */
export async function uploadedForm(
  fields: unknown,
  holders: readonly object[],
): Promise<{ readonly fields: unknown; readonly files: unknown } | null> {
  const found = new Set(
    holders.flatMap((holder) => ["file", "files"].map((name): unknown => Reflect.get(holder, name) ?? null)),
  );
  try {
    return { fields: describedField(fields ?? null), files: await describedFiles([...found]) };
  } catch (error) {
    if (error instanceof NotCovered) return null;
    throw error;
  }
}

class NotCovered extends Error {}

/**
 * A client chooses what is in a form's fields, so nothing in them is taken for a file that a parser has written. Bytes are;
 * and the parts of @fastify/multipart, each of which refers to the whole form.
 */
function describedField(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) return { digest: digestOf(value) };
  if (Array.isArray(value)) return value.map(describedField);
  if (isPart(value)) {
    const { type, value: text, filename, mimetype, _buf: bytes } = value;
    if (type === "field") return { text };
    if (!(bytes instanceof Uint8Array)) throw new NotCovered();
    return { filename: textOrNull(filename), mimetype: textOrNull(mimetype), digest: digestOf(bytes) };
  }
  return Object.entries(value).map(([name, member]) => [name, describedField(member)]);
}

type Loose = Readonly<Record<string, unknown>>;

/** No client can send an object that refers to the object it is in. */
function isPart(value: object): value is Loose {
  const { fieldname, fields } = value as Loose;
  return (
    typeof fieldname === "string" && typeof fields === "object" && fields !== null && fieldname in fields
  );
}

/** A file, a list of files, or such by the names of their fields. */
async function describedFiles(value: unknown): Promise<unknown> {
  if (typeof value !== "object" || value === null) return null;
  if (isFile(value)) return describedFile(value);
  const described: unknown[] = [];
  const isList = Array.isArray(value);
  for (const [name, member] of Object.entries(value)) {
    const files = await describedFiles(member);
    described.push(isList ? files : [name, files]);
  }
  return described;
}

const nameMembers = ["originalname", "originalFilename", "name", "filename"];
const typeMembers = ["mimetype", "type"];

function isFile(value: object): value is Loose {
  const has = (member: string) => typeof Reflect.get(value, member) === "string";
  return !Array.isArray(value) && typeMembers.some(has) && nameMembers.some(has);
}

async function describedFile(file: Loose): Promise<unknown> {
  const [name] = nameMembers.map((member) => file[member]).filter((text) => typeof text === "string");
  const [type] = typeMembers.map((member) => file[member]).filter((text) => typeof text === "string");
  return { name, type, field: textOrNull(file.fieldname), digest: await fileDigest(file) };
}

/** A parser that writes to a file leaves no bytes beside it, or an empty buffer. */
async function fileDigest(file: Loose): Promise<string> {
  const paths = [file.tempFilePath, file.filepath, file.path];
  const path = paths.find((text) => typeof text === "string" && text !== "");
  if (typeof path === "string") return digestOfPath(path);
  const bytes = [file.buffer, file.data].find((held) => held instanceof Uint8Array);
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
