/**
 * What the adapters use of `node:http`, which is not imported: an import reads all its exports, and one of them loads Node's
 * `fetch`, half of what importing Latchkey would cost.
 */
import type * as http from "node:http";

const loaded = process.getBuiltinModule("node:http");

export const ServerResponse = loaded.ServerResponse;
export type ServerResponse = http.ServerResponse;

export const OutgoingMessage = loaded.OutgoingMessage;

export const validateHeaderName = loaded.validateHeaderName;
export const validateHeaderValue = loaded.validateHeaderValue;
