/**
 * Preact's types for `tsconfig.json`: vitepress imports the real ones, which would give every file of the repository the DOM's
 * globals. The console's page is type-checked with the real ones.
 */
export type JSX = never;
export type VNode = never;
