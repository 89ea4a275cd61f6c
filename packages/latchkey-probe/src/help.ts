import { allChecks } from "./checks/all.ts";

export function helpText(): string {
  return `Usage: latchkey-probe <url> [<url> …] [options]

Tests a running HTTP API for idempotency from outside. It sends requests that change something, many times:
use an installation with disposable data. Nothing is sent to addresses that are not given here.

What is sent
  --openapi <file>            the routes, bodies and parameters of an OpenAPI 3 document, at the one URL given;
                              those with the key's header, otherwise every POST and PATCH
  --route <POST /path>        only this route of it, repeatable
  --param <name=value>        the value of a parameter, repeatable
  --method <name>             POST (default), PUT, PATCH or DELETE
  --body <text>               the body; {{uuid}} and {{n}} are new for every intention, and repeated in its retries
  --body-file <file>          the same from a file; also for the other two bodies
  --content-type <type>       default application/json
  --header <name: value>      such as credentials, repeatable; @file reads lines
  --other-header <…>          the credentials of another tenant, which replace those of the same name
  --other-body <text>         another request that is accepted; default: the body with a changed number or string
  --failing-body <text>       a request that is answered with a 5xx
  --failing-url <url>         the same body there is answered with a 5xx
  --key-header <name>         default Idempotency-Key
  --key-syntax <form>         auto (default), bare, quoted

What is expected
  --profile <name>            ietf (default), stripe, acp, ucp
  --key <need>                required, optional, any; default: the profile's
  --expect <case=statuses>    misuse=409, in-progress=409,425, bad-key=400; repeatable
  --count <url>               a GET that returns the number of effects, as a number or a list
  --count-pointer <pointer>   where in that answer, as a JSON pointer
  --check <name>              only this check, repeatable; --skip-check <name>: all but this
  --ignore <fault>            report this fault without failing, repeatable

Limits
  --dry-run                   prints what would be sent, and sends nothing
  --concurrency <n>           simultaneous requests in races, default 5
  --rate <n>                  requests per second, default 20
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
