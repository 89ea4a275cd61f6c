/** The same on Nest 11, which is installed beside this file alone. */
import "reflect-metadata";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import * as common from "@nestjs/common";
import * as core from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import * as swagger from "@nestjs/swagger";
import * as terminus from "@nestjs/terminus";
import { expect, test } from "vitest";
import { nestCoverageCases } from "../coverage/nest-cases.ts";
import { moduleCases } from "../nest/module-cases.ts";
import type { Nest } from "../nest/nest-versions.ts";

test("it is Nest 11", () => {
  const { resolve } = createRequire(import.meta.url);
  for (const name of ["common", "core", "platform-express", "platform-fastify", "swagger", "terminus"]) {
    const { version } = JSON.parse(readFileSync(resolve(`@nestjs/${name}/package.json`), "utf8"));
    expect([name, version.split(".")[0]]).toEqual([name, "11"]);
  }
});

const packages = { common, core, ExpressAdapter, FastifyAdapter, swagger, terminus };
const nest = { version: "11", ...packages } as unknown as Nest;
moduleCases(nest);
nestCoverageCases(nest);
