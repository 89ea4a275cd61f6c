/** The HTTP conformance suite's app, on each framework. */
import { frameworks } from "../registry/frameworks.ts";
import type { SuiteApp } from "./suite-app.ts";

const suites = await Promise.all(frameworks.map((framework) => framework.suite()));

export const apps: readonly SuiteApp[] = suites.flatMap((suite) => suite.apps);
