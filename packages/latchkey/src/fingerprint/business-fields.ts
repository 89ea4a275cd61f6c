import { canonicalBytes } from "./canonical-json.ts";
import { compareCodeUnits } from "./code-units.ts";
import type { JsonNode } from "./json-tree.ts";
import type { Field } from "./length-prefixed.ts";

/**
 * Checks the names of business fields and sorts them.
 *
 * @throws TypeError if there are none, if one is empty or has an empty part, or if one occurs twice.
 */
export function checkFieldNames(names: readonly string[]): readonly string[] {
  if (names.length === 0) throw new TypeError("fields must name at least one field");
  if (new Set(names).size !== names.length) throw new TypeError("fields must not name a field twice");
  if (names.some((name) => name.split(".").includes(""))) {
    throw new TypeError('a field is a member name, or member names joined by dots such as "customer.id"');
  }
  return names.toSorted(compareCodeUnits);
}

/**
 * The chosen members of a JSON object: for each a list of its name and its canonical value, or of its name and
 * null where it is missing (a JSON `null` is the text `null`). Null if the value is not an object or has none of
 * them, because every such value would get the same digest.
 */
export function pickFields(root: JsonNode, sortedNames: readonly string[]): Field[] | null {
  const picked = sortedNames.map((name) => ({ name, node: findMember(root, name) }));
  if (picked.every(({ node }) => node === null)) return null;
  return picked.map(({ name, node }) => [name, node === null ? null : canonicalBytes(node)]);
}

function findMember(root: JsonNode, path: string): JsonNode | null {
  let node: JsonNode = root;
  for (const name of path.split(".")) {
    if (typeof node === "string" || node.kind !== "object") return null;
    const member = node.members.find((candidate) => candidate.name === name);
    if (member === undefined) return null;
    node = member.value;
  }
  return node;
}
