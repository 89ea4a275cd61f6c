/** The audit of a Nest app, on Nest 12. */
import "reflect-metadata";
import * as common from "@nestjs/common";
import * as core from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import * as swagger from "@nestjs/swagger";
import * as terminus from "@nestjs/terminus";
import { nestCoverageCases } from "./nest-cases.ts";

nestCoverageCases({ version: "12", common, core, ExpressAdapter, FastifyAdapter, swagger, terminus });
