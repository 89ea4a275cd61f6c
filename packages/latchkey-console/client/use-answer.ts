import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "../src/wire.ts";
import { ask, poll } from "./api.ts";

export interface Loaded<T> {
  /** Null: not received yet. The last value stays while the console does not answer. */
  readonly value: T | null;
  readonly problem: Problem | null;
  reload(): void;
}

/** Requests now and every five seconds; starts again if the address changes. */
export function useAnswer<T>(
  path: string,
  query: Readonly<Record<string, string | null | undefined>> = {},
): Loaded<T> {
  const address = JSON.stringify([path, query]);
  const [state, setState] = useState<{
    readonly address: string;
    readonly value: T | null;
    readonly problem: Problem | null;
  }>({
    address,
    value: null,
    problem: null,
  });
  const reload = useRef<() => void>(() => {});
  useEffect(() => {
    let isOver = false;
    const read = async () => {
      const answer = await ask<T>(path, query);
      if (isOver) return;
      setState((before) => {
        const value = before.address === address ? before.value : null;
        return answer.ok
          ? { address, value: answer.value, problem: null }
          : { address, value, problem: answer.problem };
      });
    };
    reload.current = () => void read();
    const end = poll(() => void read());
    return () => {
      isOver = true;
      end();
    };
  }, [address]);
  const isCurrent = state.address === address;
  return {
    value: isCurrent ? state.value : null,
    problem: isCurrent ? state.problem : null,
    reload: () => reload.current(),
  };
}
