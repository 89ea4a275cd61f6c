/** The JSON schema of RFC 9457's problem bodies, from the test vectors. */
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { readVectors } from "./vector-files.ts";

/** What the schema finds wrong with a problem body. */
export type SchemaCheck = (problem: unknown) => readonly string[];

/** Null where the vectors are not there. */
export function problemSchema(): SchemaCheck | null {
  const [file] = readVectors("problem-details/schema/json", ".json");
  if (file === undefined) return null;
  // The published file breaks its long texts with a backslash before the line's end, which JSON does not have.
  const text = Buffer.from(file.bytes).toString("utf8").replaceAll("\\\n", "");
  const ajv = new Ajv2020({ allErrors: true });
  addFormats.default(ajv);
  const validate = ajv.compile(JSON.parse(text));
  return (problem) =>
    validate(problem)
      ? []
      : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}
