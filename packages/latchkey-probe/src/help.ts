import { allChecks } from "./checks/all.ts";

export function helpText(): string {
  return `Usage: latchkey-probe <url> [<url> …] [options]

Tests a running HTTP API from outside for idempotency. It sends requests that change something, many times:
use an installation with disposable data. Nothing is sent to an address that is not named here.

What is sent
  --openapi <file>            the routes, bodies and parameters of an OpenAPI 3 document, at the one URL given;
                              those with the key's header, or else every POST and PATCH
  --route <POST /path>        only this route of it, repeatable
  --param <name=value>        the value of a parameter, repeatable
  --method <name>             POST (default), PUT, PATCH or DELETE
  --body <text>               the body; {{uuid}} and {{n}} are new with every intention, the same in its retries
  --body-file <file>          the same from a file; so for the other two bodies
  --content-type <type>       default application/json
  --header <name: value>      credentials and the like, repeatable; @file reads lines
  --other-header <…>          the credentials of another tenant, which replace those of the same name
  --other-body <text>         another request that is accepted; default: the body with a number or text changed
  --failing-body <text>       a request that is answered with a 5xx
  --failing-url <url>         the same body there is answered with a 5xx
  --key-header <name>         default Idempotency-Key
  --key-syntax <form>         auto (default), bare, quoted

What is expected
  --profile <name>            ietf (default), stripe, acp, ucp
  --key <need>                required, optional, any; default: the profile's
  --expect <case=statuses>    misuse=409, in-progress=409,425, bad-key=400; repeatable
  --count <url>               GET answers the number of effects, as a number or a list
  --count-pointer <pointer>   where in that answer, as a JSON pointer
  --check <name>              only this check, repeatable; --skip-check <name>: all but this
  --ignore <fault>            report this fault without failing, repeatable

Limits
  --dry-run                   prints what would be sent, and sends nothing
  --concurrency <n>           requests at the same moment in races, default 5
  --rate <n>                  requests a second, default 20
  --max-requests <n>          of the whole run, default 500
  --timeout <s>               of one request, default 30
  --patience <s>              how long a key may stay blocked, default 15

Reports
  --format <name>             text (default) or json, on standard output
  --json, --junit, --html <file>  write reports beside it

Exit codes: 0 no fault, 1 faults, 2 usage, 3 not reached or the plain request is refused.

Checks
${allChecks.map(({ name, about }) => `  ${name.padEnd(16)} ${about}`).join("\n")}`;
}
