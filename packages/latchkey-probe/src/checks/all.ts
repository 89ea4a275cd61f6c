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

/**
 * In the order in which they run: the result of the first one decides whether the checks that need replays are meaningful.
 */
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
