import type { Check } from "./check.ts";
import { cut } from "./cut.ts";
import { headerSyntax } from "./header-syntax.ts";
import { malformedKey } from "./malformed-key.ts";
import { missingKey } from "./missing-key.ts";
import { otherBody } from "./other-body.ts";
import { otherRoute } from "./other-route.ts";
import { race } from "./race.ts";
import { raceOtherBody } from "./race-other-body.ts";
import { sameKey } from "./same-key.ts";
import { serverError } from "./server-error.ts";
import { similarKeys } from "./similar-keys.ts";
import { tenants } from "./tenants.ts";

/** In the order in which they are made: the first one decides whether those that need replays say anything. */
export const allChecks: readonly Check[] = [
  sameKey,
  otherBody,
  race,
  raceOtherBody,
  cut,
  tenants,
  missingKey,
  malformedKey,
  similarKeys,
  headerSyntax,
  serverError,
  otherRoute,
];
