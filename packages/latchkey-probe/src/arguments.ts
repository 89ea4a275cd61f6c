/** The command line. Arguments that cannot be used are a `UsageError`: a message and exit code 2. */
import { closeSync, openSync, readFileSync } from "node:fs";
import { validateHeaderValue } from "node:http";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { otherBodyOf } from "./bodies/other-body.ts";
import { allChecks } from "./checks/all.ts";
import { type FaultCode, isFaultCode } from "./faults.ts";
import type { DescribedTargets } from "./openapi/targets.ts";
import type { Timing } from "./ports.ts";
import { type Profile, type ProfileName, profileNames, profiles } from "./profiles.ts";
import type { EffectCount, ProbeSettings } from "./settings.ts";
import type { HeaderLine, Target } from "./target.ts";

export class UsageError extends Error {
  override readonly name = "UsageError";
}

export interface Invocation {
  readonly settings: ProbeSettings;
  readonly format: "text" | "json";
  /** Files for additional reports; they are known to be writable. */
  readonly files: Readonly<Record<ReportFormat, string | null>>;
  readonly dryRun: boolean;
}

export type ReportFormat = "json" | "junit" | "html";

const text = { type: "string" } as const;
const texts = { type: "string", multiple: true } as const;

const optionTable = {
  openapi: text,
  route: texts,
  param: texts,
  method: text,
  header: texts,
  "other-header": texts,
  body: text,
  "body-file": text,
  "other-body": text,
  "other-body-file": text,
  "failing-body": text,
  "failing-body-file": text,
  "failing-url": text,
  "content-type": text,
  "key-header": text,
  "key-syntax": text,
  key: text,
  profile: text,
  expect: texts,
  count: text,
  "count-pointer": text,
  check: texts,
  "skip-check": texts,
  ignore: texts,
  concurrency: text,
  rate: text,
  "max-requests": text,
  timeout: text,
  patience: text,
  format: text,
  json: text,
  junit: text,
  html: text,
  "dry-run": { type: "boolean" },
} as const;

type Given = ReturnType<typeof readArguments>["values"];

/** @throws {UsageError} */
export async function parseInvocation(
  args: readonly string[],
  cwd: string,
  timing: Timing,
): Promise<Invocation> {
  const { values, positionals } = readArguments(args);
  const profile = profileOf(values);
  const urls = positionals.map(urlOf);
  if (urls.length === 0) throw new UsageError("Give the URL to probe.");
  const keyHeader = headerName(values["key-header"] ?? "Idempotency-Key");
  const { targets, leftOut } = await targetsOf(urls, values, { profile, keyHeader, cwd });
  return {
    settings: {
      targets,
      profile,
      leftOut,
      keyHeader,
      keySyntax: choice("key-syntax", values["key-syntax"] ?? "auto", ["auto", "bare", "quoted"]),
      credentials: headerLines("header", values.header ?? [], cwd),
      otherCredentials: values["other-header"]
        ? headerLines("other-header", values["other-header"], cwd)
        : null,
      count: countOf(values),
      checks: checksOf(values),
      ignored: ignoredOf(values),
      concurrency: wholeNumber("concurrency", values.concurrency, 2, 50) ?? 5,
      requestsPerSecond: wholeNumber("rate", values.rate, 1, 1_000) ?? 20,
      requestsMax: wholeNumber("max-requests", values["max-requests"], 1, 100_000) ?? 500,
      timeoutMs: (wholeNumber("timeout", values.timeout, 1, 3_600) ?? 30) * 1_000,
      patienceMs: (wholeNumber("patience", values.patience, 1, 3_600) ?? 15) * 1_000,
      timing,
    },
    format: choice("format", values.format ?? "text", ["text", "json"]),
    files: {
      json: reportFile("json", values.json, cwd),
      junit: reportFile("junit", values.junit, cwd),
      html: reportFile("html", values.html, cwd),
    },
    dryRun: values["dry-run"] ?? false,
  };
}

function readArguments(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], strict: true, allowPositionals: true, options: optionTable });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function urlOf(given: string): URL {
  const url = URL.parse(given);
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new UsageError(`"${given}" is not a URL that starts with http:// or https://.`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new UsageError(
      "Do not put credentials into the URL, which appears in reports; pass them with --header.",
    );
  }
  return url;
}

interface Surroundings {
  readonly profile: Profile;
  readonly keyHeader: string;
  readonly cwd: string;
}

async function targetsOf(
  urls: readonly URL[],
  given: Given,
  { profile, keyHeader, cwd }: Surroundings,
): Promise<DescribedTargets> {
  const { openapi, route: routes = [], param = [] } = given;
  const key = given.key === undefined ? null : keyNeed(given.key);
  if (openapi === undefined) {
    if (routes.length > 0 || param.length > 0) throw new UsageError("--route and --param need --openapi.");
    return { targets: urls.map((url) => targetOf(url, given, key ?? profile.key, cwd)), leftOut: [] };
  }
  const [base, ...others] = urls;
  if (base === undefined || others.length > 0)
    throw new UsageError("--openapi needs exactly one URL: the address of the API.");
  refuseBeside(given, [
    "method",
    ...Object.keys(given).filter((name) => /body|content-type|failing-url/u.test(name)),
  ]);
  const parameters = new Map(param.map(nameAndValue));
  // Loaded on demand: without --openapi no document has to be read.
  const { describedTargets } = await import("./openapi/targets.ts");
  try {
    const options = { base, keyHeader, profile, key, routes, parameters };
    const described = describedTargets(readText(openapi, cwd), options);
    if (described.targets.length > 0) return described;
    const reasons = described.leftOut.map(({ name, reason }) => `\n  ${name}: ${reason}`);
    throw new UsageError(`${openapi} has no route that can be probed.${reasons.join("")}`);
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "DocumentError") throw error;
    throw new UsageError(`${openapi}: ${error.message}`, { cause: error });
  }
}

function refuseBeside(given: Given, names: readonly string[]): void {
  const name = names.find((each) => Object.hasOwn(given, each));
  if (name !== undefined)
    throw new UsageError(`--${name} applies to a URL; with --openapi the document defines it.`);
}

function nameAndValue(given: string): readonly [string, string] {
  const equals = given.indexOf("=");
  if (equals < 1) throw new UsageError(`--param must be name=value (got ${given}).`);
  return [given.slice(0, equals), given.slice(equals + 1)];
}

function keyNeed(given: string): Target["key"] {
  return choice("key", given, ["required", "optional", "any"]);
}

function targetOf(url: URL, given: Given, key: Target["key"], cwd: string): Target {
  const method = (given.method ?? "POST").toUpperCase();
  if (!/^(POST|PUT|PATCH|DELETE)$/u.test(method)) {
    throw new UsageError(`--method must be POST, PUT, PATCH or DELETE (got ${method}).`);
  }
  const body = bodyOf("body", given, cwd) ?? "";
  const contentType = given["content-type"] ?? (body === "" ? null : "application/json");
  return {
    name: `${method} ${url.pathname}`,
    method,
    url,
    headers: contentType === null ? [] : [["Content-Type", contentType]],
    body,
    otherBody: bodyOf("other-body", given, cwd) ?? otherBodyOf(body),
    failing: failingOf(url, body, given, cwd),
    key,
  };
}

function failingOf(url: URL, body: string, given: Given, cwd: string): Target["failing"] {
  const failingBody = bodyOf("failing-body", given, cwd);
  const failingUrl = given["failing-url"];
  if (failingBody === null && failingUrl === undefined) return null;
  return { url: failingUrl === undefined ? url : urlOf(failingUrl), body: failingBody ?? body };
}

type BodyOption = "body" | "other-body" | "failing-body";

function bodyOf(option: BodyOption, given: Given, cwd: string): string | null {
  const [written, file] = [given[option], given[`${option}-file`]];
  if (written !== undefined && file !== undefined) {
    throw new UsageError(`Pass either --${option} or --${option}-file, not both.`);
  }
  return written ?? (file === undefined ? null : readText(file, cwd));
}

function readText(path: string, cwd: string): string {
  try {
    return readFileSync(resolve(cwd, path), "utf8");
  } catch (error) {
    throw new UsageError(
      `${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
      {
        cause: error,
      },
    );
  }
}

/** `Name: value`, or `@file` with one per line, so that credentials need not appear in the list of processes. */
function headerLines(option: string, given: readonly string[], cwd: string): readonly HeaderLine[] {
  const lines = given.flatMap((each) =>
    each.startsWith("@")
      ? readText(each.slice(1), cwd)
          .split(/\r?\n/u)
          .filter((line) => line.trim() !== "")
      : [each],
  );
  return lines.map((line) => {
    const colon = line.indexOf(":");
    if (colon < 1)
      throw new UsageError(`--${option} must be "Name: value", or @ and a file with such lines.`);
    return [headerName(line.slice(0, colon).trim()), headerValue(line, line.slice(colon + 1).trim())];
  });
}

function headerValue(line: string, value: string): string {
  try {
    validateHeaderValue("any", value);
    return value;
  } catch (error) {
    const name = line.slice(0, line.indexOf(":"));
    throw new UsageError(`${name} has a value that a header cannot have.`, { cause: error });
  }
}

function headerName(name: string): string {
  if (/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/u.test(name)) return name;
  throw new UsageError(`"${name}" is not a valid header name.`);
}

function profileOf(given: Given): Profile {
  const profile = profiles[choice<ProfileName>("profile", given.profile ?? "ietf", profileNames)];
  const members = { misuse: "misuse", "in-progress": "inProgress", "bad-key": "badKey" } as const;
  const changes = (given.expect ?? []).map((each) => {
    const [name = "", list = ""] = each.split("=", 2);
    const member = members[choice("expect", name, ["misuse", "in-progress", "bad-key"])];
    if (!/^[1-5]\d\d(,[1-5]\d\d)*$/u.test(list)) {
      throw new UsageError(`--expect must be like ${name}=409 or ${name}=409,422 (got ${each}).`);
    }
    return [member, list.split(",").map(Number)] as const;
  });
  return { ...profile, ...Object.fromEntries(changes) };
}

function countOf(given: Given): EffectCount | null {
  const pointer = given["count-pointer"] ?? "";
  if (given.count === undefined) {
    if (pointer !== "") throw new UsageError("--count-pointer needs --count.");
    return null;
  }
  if (pointer !== "" && !pointer.startsWith("/")) throw new UsageError("--count-pointer must begin with /.");
  return { url: urlOf(given.count), pointer };
}

function checksOf(given: Given): readonly string[] {
  const names = allChecks.map(({ name }) => name);
  const chosen = (given.check ?? names).map((name) => choice("check", name, names));
  const left = new Set((given["skip-check"] ?? []).map((name) => choice("skip-check", name, names)));
  return chosen.filter((name) => !left.has(name));
}

function ignoredOf(given: Given): ReadonlySet<FaultCode> {
  return new Set(
    (given.ignore ?? []).map((code) => {
      if (isFaultCode(code)) return code;
      throw new UsageError(`--ignore: there is no fault "${code}".`);
    }),
  );
}

function choice<T extends string>(option: string, given: string, values: readonly T[]): T {
  const match = values.find((value) => value === given);
  if (match !== undefined) return match;
  throw new UsageError(`--${option} must be one of ${values.join(", ")} (got ${given}).`);
}

function wholeNumber(option: string, given: string | undefined, least: number, most: number): number | null {
  if (given === undefined) return null;
  const value = /^[0-9]{1,9}$/u.test(given) ? Number(given) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new UsageError(`--${option} must be a whole number from ${least} to ${most} (got ${given}).`);
}

/** Checked before anything is sent. */
function reportFile(option: ReportFormat, given: string | undefined, cwd: string): string | null {
  if (given === undefined) return null;
  const path = resolve(cwd, given);
  try {
    closeSync(openSync(path, "a"));
    return path;
  } catch (error) {
    throw new UsageError(`--${option}: ${path} cannot be written: ${String(error)}`, { cause: error });
  }
}
