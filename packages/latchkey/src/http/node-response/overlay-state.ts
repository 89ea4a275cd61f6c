/**
 * What a held response is known by: whose answer is being given, what Node keeps in properties of the response itself and
 * goes on writing, and what is shown there in its place.
 */
import type { ServerResponse } from "node:http";
import type { Bystander } from "../protocol/bystander.ts";
import type { AnswerWatcher, HeldAnswer } from "./buffered-answer.ts";
import { overlayKey } from "./buffered-prototype.ts";

/** What Node keeps in properties of its own on each response, and goes on writing. */
interface NodeState {
  _header: string | null;
  destroyed: boolean;
  finished: boolean;
  writable: boolean;
}

export type Held = ServerResponse & NodeState & Record<PropertyKey, unknown>;

export interface Overlay {
  readonly res: Held;
  current: HeldAnswer;
  /** What is Node's, and what is shown in its place. A property that no longer shows it has been written by Node. */
  readonly real: NodeState;
  readonly shown: NodeState;
  /** What the response had of its own under the names that are covered: mostly methods that middleware has wrapped. */
  readonly covered: Map<string, unknown>;
  /** The same as it was defined, where it cannot be assigned. */
  readonly defined: Map<string, PropertyDescriptor>;
  /** Null where the handler works on the response itself, so that nothing tells its answer from another. */
  readonly bystander: Bystander | null;
  /** The prototype that is laid over the response's own one. */
  held: object;
}

/** Shows a change of the answer that is being given, and of no other. */
export class Watcher implements AnswerWatcher {
  readonly #overlay: Overlay;

  constructor(overlay: Overlay) {
    this.#overlay = overlay;
  }

  changed(answer: HeldAnswer): void {
    const { current, res } = this.#overlay;
    if (current === answer && res[overlayKey] === this.#overlay) show(this.#overlay);
  }
}

/** Notes what Node has written to its properties, and shows the held answer's state in them again. */
export function show({ res, real, shown, current }: Overlay): void {
  noteWritten(res, real, shown);
  res._header = shown._header = current.headSent ? heldHeader : null;
  res.destroyed = shown.destroyed = current.destroyed;
  res.finished = shown.finished = current.ended;
  res.writable = shown.writable = current.writable;
}

export function noteWritten(res: NodeState, real: NodeState, shown: NodeState): void {
  if (res._header !== shown._header) real._header = res._header;
  if (res.destroyed !== shown.destroyed) real.destroyed = res.destroyed;
  if (res.finished !== shown.finished) real.finished = res.finished;
  if (res.writable !== shown.writable) real.writable = res.writable;
}

/** By which Node's parts and some middleware know that the head has been sent. */
const heldHeader = "held";
