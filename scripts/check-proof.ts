/**
 * Says when docs/proof.md is another page than its ledger and today's code make. It is apart from the other generated
 * pages: it says how far evidence is from the code, so that any change of the library's code changes it.
 */
import { pagePath, renderProofPage } from "../test/proof/page.ts";
import { findStalePages } from "./generate-docs.ts";
import { report, repositoryRoot } from "./support/repository.ts";

const page = { path: pagePath, text: renderProofPage(repositoryRoot) };
report("proof", findStalePages([page]), pagePath);
