/**
 * Whether a key is what a client's bug has left in the place of one: a value that is none, or a template that was never
 * filled in. All requests with that bug have the same key, so that one customer's second order is the first one's retry.
 */
export function isPlaceholderKey(key: string): boolean {
  return placeholder.test(key);
}

/** `None` and `nil` are how Python, Ruby and Go write nothing; Objective-C and Swift write `(null)`, Go also `<nil>`. */
const placeholder =
  /^\s*(?:undefined|null|nan|none|nil|\(null\)|<nil>|<null>|\[object [\w ]*\]|\{\{[^{}]*\}\}|\$\{[^{}]*\})\s*$/iu;
