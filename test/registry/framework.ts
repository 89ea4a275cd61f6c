/** What a framework's entry in the registry says. Everything that loads the framework itself is loaded on demand. */
import type { MakeListener } from "../docs/handlers.ts";
import type { FrontEndFactory } from "../fixture/http/front-end.ts";
import type { SmallServices } from "../http/small-services.ts";
import type { SuiteApp } from "../http/suite-app.ts";
import type { Starts } from "../neighbours/starts.ts";
import type { NamedNeighbours } from "../neighbours/table.ts";
import type { Captured } from "./captured.ts";

export interface Framework {
  /** Of `latchkey/<name>`, of `docs/adapters/<name>.md` and of the fixture's `--http`. */
  readonly name: string;
  readonly docs: FrameworkDocs;
  /** The apps in which its adapter differs: versions of the framework, or platforms below it. */
  readonly variants: Readonly<Record<string, Variant>>;
  /** The adapter's module. It exports `<name>Protect`, `<name>Serve` and `<name>Status`. */
  adapter(): Promise<object>;
  /** Which of them are given the app before everything else. */
  readonly givenApp?: readonly string[];
  /** The HTTP conformance suite's app. */
  suite(): Promise<{ readonly apps: readonly SuiteApp[] }>;
  /** The fixture server's front end. */
  fixture(): Promise<{ readonly frontEnd: FrontEndFactory }>;
  /** For each variant that is `captured`, a service whose handlers do what the page's table says. */
  documented(): Promise<{ readonly services: Readonly<Record<string, MakeListener>> }>;
  /** Services that tests over all frameworks put one question to each. */
  services(): Promise<{ readonly services: SmallServices }>;
  /** For each variant, the app with each neighbour that the variant names. */
  neighbours(): Promise<{ readonly neighbours: Readonly<Record<string, Starts>> }>;
}

/** Parts of the tables in README.md, docs/README.md, docs/modules.md and docs/adapters/README.md. */
interface FrameworkDocs {
  readonly title: string;
  readonly versions: string;
  /** What the module gives. */
  readonly gives: string;
  /** Where the bytes of the body come from. */
  readonly body: string;
}

interface Variant {
  readonly title: string;
  /** What is captured of an answer. Left out: as in the first variant. */
  readonly captured?: Captured;
  /** Where the page has that. Default `captured`. */
  readonly section?: string;
  readonly neighbours: NamedNeighbours;
}
