import { existsSync, readFileSync } from "node:fs";

/** The built package has this module in a file or in a subfolder, so package.json is one or two folders up. */
export function ownVersion(): string {
  const places = ["../package.json", "../../package.json"].map((path) => new URL(path, import.meta.url));
  const manifest: { readonly version: string } = JSON.parse(
    readFileSync(places.find((place) => existsSync(place)) ?? "", "utf8"),
  );
  return manifest.version;
}
