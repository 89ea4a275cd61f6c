/** Express 4 under an alias; what the tests use of it is typed as in Express 5. */
declare module "express4" {
  export { default } from "express";
}
