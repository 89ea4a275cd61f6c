import { afterAll } from "vitest";
import { releaseAll } from "./resources.ts";

afterAll(releaseAll);
