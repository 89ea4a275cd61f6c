/** Parts of documents that name every framework, store and database client of the registry. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { clients } from "../../test/registry/clients.ts";
import { frameworks } from "../../test/registry/frameworks.ts";
import { addressOf } from "../../test/registry/store.ts";
import { stores } from "../../test/registry/stores.ts";
import { repositoryRoot } from "./repository.ts";
import { renderTable } from "./sections.ts";

const code = (text: string): string => `\`${text}\``;
const moduleOf = (name: string): string => code(`latchkey/${name}`);
const shortNames = (entries: readonly { readonly name: string }[]): string =>
  entries.map(({ name }) => code(`/${name}`)).join(", ");
const links = (entries: readonly Linked[], folder: string): string =>
  entries.map(({ name, docs }) => `[${docs.title}](${folder}/${name}.md)`).join(", ");

interface Linked {
  readonly name: string;
  readonly docs: { readonly title: string };
}

const manifest = (path: string) => JSON.parse(readFileSync(join(repositoryRoot, path), "utf8"));

/** README.md: what works today. */
export const readmeSections = {
  stores: () => stores.map(({ name, docs }) => `${docs.versions} (${moduleOf(name)})`).join(", "),
  clients: () =>
    clients
      .map(({ name, docs }) => {
        const modules = [...(docs.alsoIn ?? []), name].map(moduleOf);
        return `[${docs.title}](docs/transactions/${name}.md) (${modules.join(", ")})`;
      })
      .join(", "),
  frameworks: () => frameworks.map(({ name, docs }) => `${docs.versions} (${moduleOf(name)})`).join("; "),
};

/** The README of the package. */
export const packageReadmeSections = {
  frameworks: () => shortNames(frameworks),
  clients: () => shortNames(clients),
  stores: () => shortNames(stores),
};

/** test/fixture/README.md. */
export const fixtureSections = {
  frameworks: () => frameworks.map(({ name }) => code(name)).join(", "),
  stores: () => stores.map((store) => code(addressOf(store))).join(", "),
};

/** docs/README.md, from which the site has its sidebar. */
export const indexSections = {
  frameworks: () => links(frameworks, "adapters"),
  clients: () => links(clients, "transactions"),
};

/** docs/modules.md. */
export const moduleSections = {
  frameworks: () => renderModules(frameworks),
  clients: () => renderModules(clients),
  stores: () => renderModules(stores),
};

function renderModules(
  entries: readonly { readonly name: string; readonly docs: { readonly gives?: string } }[],
): string {
  const { exports } = manifest("packages/latchkey/package.json");
  const rows = entries.flatMap(({ name, docs: { gives } }) => {
    const source: string = exports[`./${name}`]?.["latchkey-source"] ?? "missing in `exports`";
    return gives === undefined ? [] : [[moduleOf(name), code(source.replace("./", "")), gives]];
  });
  return renderTable(["Module", "Source", "What it gives"], rows);
}

/** docs/adapters/README.md. */
export const adapterSections = {
  adapters: () =>
    renderTable(
      ["Page", "Import", "For", "Where the bytes of the body come from"],
      frameworks.map(({ name, docs }) => [
        `[${docs.title}](${name}.md)`,
        moduleOf(name),
        docs.versions,
        docs.body,
      ]),
    ),
  functions: () =>
    renderTable(
      ["For", ...frameworks.map(({ docs }) => docs.title)],
      [
        functionsFor("a route's own handler", "Protect"),
        functionsFor("an [operation that owns its work](../http.md#operations-that-own-their-work)", "Serve"),
        functionsFor("the [status](../http.md#work-that-is-done-later) of what was answered 202", "Status"),
      ],
    ),
};

function functionsFor(what: string, suffix: string): readonly string[] {
  return [what, ...frameworks.map(({ name }) => code(`${name}${suffix}`))];
}

/** docs/transactions/README.md. */
export const transactionSections = {
  clients: () =>
    renderTable(
      ["Your client", "Import", "Versions", "A handler's `tx`", "A nested transaction"],
      [
        ...clients.map(({ name, docs: { title, alsoIn = [], versions, tx, nested } }) => {
          const modules = [...alsoIn, name].map(moduleOf).join(", ");
          return [`[${title}](${name}.md)`, modules, versions, tx, nested];
        }),
        ["[Another client](own-client.md)", "a bridge of your own", ownClient, "yours", "yours"],
      ],
    ),
  traps: () =>
    renderTable(
      ["Client", "How its `tx` gets onto Latchkey's connection", "Traps"],
      clients.map(({ docs: { title, connection, traps } }) => [title, connection, traps]),
    ),
  "silent rollbacks": renderRollbacks,
};

const ownClient = "what can be put on a client of `pg`, and others";

/** What clients alone report of a transaction that Postgres has rolled back. Slonik has no bridge. */
function renderRollbacks(): string {
  const { devDependencies: versions } = manifest("package.json");
  const rows = clients.flatMap(({ ways }) =>
    Object.entries(ways).map(([way, facts]) => {
      const { package: name, reports, failure, when } = facts;
      const client = `${way.split(",")[0]} ${versions[name]}`;
      const reported = reports === "success" ? reports : `the failure (${failure})`;
      return [when === undefined ? client : `${client}, ${when}`, reported, "`transaction-aborted`"];
    }),
  );
  const slonik = [`Slonik ${versions.slonik}`, "success", "no bridge"];
  return renderTable(["Client, alone", "Reports", "Through Latchkey"], [...rows, slonik]);
}
