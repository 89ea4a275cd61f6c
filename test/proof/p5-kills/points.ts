/** Where a process can die: every call that it makes, and every moment of it. */
import type { KillPoint, Moment, Port, Series } from "./course.ts";
import type { ReportedCall } from "./victim-process.ts";

export interface Point extends KillPoint {
  readonly port: Port;
}

/** A statement that only reads does the same whenever it arrives; a hint is not waited for, so nobody can hold it up. */
const neverLate: ReadonlySet<Port> = new Set([
  "verify",
  "read",
  "readById",
  "endedLeases",
  "readJournal",
  "callsByDownstreamKey",
  "finishedCalls",
  "resumable",
  "listRecords",
  "readAudit",
  "listEffects",
  "effectsOfRecord",
  "resolve",
  "lookup",
  "sendHint",
]);

/** Every point of a run that nobody has disturbed. */
export function pointsOf(series: Series, calls: readonly ReportedCall[]): readonly Point[] {
  return calls.flatMap(({ port, writes }, index) => {
    const at = (moment: Moment, write = 0): Point => ({
      series,
      of: null,
      number: index + 1,
      port,
      moment,
      write,
    });
    const each = Array.from({ length: writes }, (_, before) => before + 1);
    return [
      at("before"),
      ...each.map((write) => at("flight", write)),
      ...(neverLate.has(port) ? [] : each.map((write) => at("late", write))),
      at("after"),
    ];
  });
}

/** As a reproduction names it: the number of the call, its port, the moment and, where it is not the first, the write. */
export function nameOfPoint({ number, port, moment, write }: Point): string {
  return `${number} ${port} ${moment}${write > 1 ? ` ${write}` : ""}`;
}

const nameShape = /^(\d+) (\w+) (before|flight|late|after)(?: (\d+))?$/;

/** @throws {TypeError} when nobody could have named a point so */
export function pointNamed(series: Series, name: string): Point {
  const [, number, port, moment, write = "1"] = nameShape.exec(name) ?? [];
  if (port === undefined) throw new TypeError(`no point is called ${name}`);
  return {
    series,
    of: null,
    number: Number(number),
    port: port as Port,
    moment: moment as Moment,
    write: Number(write),
  };
}
