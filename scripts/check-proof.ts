/**
 * Reports when docs/proof.md is out of date with its ledger and the code. It is separate from the other generated pages: the
 * page says how far the evidence is from the code, so every change of the library's code changes it.
 */
import { pagePath, renderProofPage } from "../test/proof/page.ts";
import { findStalePages } from "./generate-docs.ts";
import { report, repositoryRoot } from "./support/repository.ts";

const page = { path: pagePath, text: renderProofPage(repositoryRoot) };
report("proof", findStalePages([page]), pagePath);
