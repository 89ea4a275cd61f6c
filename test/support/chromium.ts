import { type Browser, chromium } from "playwright-core";
import { debianTool } from "./debian-tools.ts";

/** Starts Debian's Chromium. The caller closes it. Null if it is not available; callers then report that with `notRun`. */
export async function startChromium(): Promise<Browser | null> {
  const executablePath = await debianTool("chromium");
  if (executablePath === null) return null;
  // Its sandbox refuses to run as root, and needs namespaces that containers do not provide.
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}
