/** Module `latchkey-client/tanstack-query`: mutations of TanStack Query 5 that take effect once, also over a reload. */
import type { Client } from "./client.ts";
import { newKey } from "./key.ts";

/** What is needed of a mutation in the cache. */
export interface CachedMutation {
  readonly state: {
    readonly status: string;
    readonly variables: unknown;
    readonly context: unknown;
    readonly submittedAt: number;
  };
  readonly options: { readonly mutationKey?: readonly unknown[] | undefined };
  continue(): Promise<unknown>;
}

/** What is needed of a `QueryClient`. */
export interface MutationClient {
  getMutationCache(): { getAll(): readonly CachedMutation[] };
}

/** What TanStack Query gives a mutation function. */
export interface MutationContext {
  readonly client: MutationClient;
}

/** What a mutation function is given here. */
export interface IntentContext {
  /** The mutation's own intent, the same after a reload. */
  readonly intent: string;
  /** `fetch` of the client, under that intent. One request that changes something for each mutation. */
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
}

export interface IdempotentMutationOptions<Data, Variables> {
  /** By which a mutation that was persisted finds its function again. */
  readonly mutationKey: readonly unknown[];
  /** Sends the request through `context.fetch`. Throws where the answer is no success. */
  readonly mutationFn: (variables: Variables, context: IntentContext) => Promise<Data>;
  /** As TanStack Query's; what it returns is an object or nothing. */
  readonly onMutate?: (
    variables: Variables,
    context: MutationContext,
  ) => object | undefined | Promise<object | undefined>;
}

/** What is kept of the intent in the mutation's context, which is persisted with it. */
interface KeptIntent {
  readonly latchkeyIntent: string;
}

/**
 * Options for `setMutationDefaults` or `useMutation`: each mutation is an intent. Give `onMutate` here and not beside it,
 * since the intent is kept in what it returns.
 */
export function idempotentMutation<Data, Variables>(
  client: Client,
  options: IdempotentMutationOptions<Data, Variables>,
): {
  readonly mutationKey: readonly unknown[];
  readonly mutationFn: (variables: Variables, context: MutationContext) => Promise<Data>;
  readonly onMutate: (variables: Variables, context: MutationContext) => Promise<KeptIntent>;
} {
  const { mutationKey, mutationFn, onMutate } = options;
  return {
    mutationKey,
    async mutationFn(variables, context) {
      const intent = running.get(context) ?? claim(mutationKey, variables, context);
      return mutationFn(variables, {
        intent,
        fetch: (input, init) => client.fetch(input, { ...init, intent }),
      });
    },
    async onMutate(variables, context) {
      return { ...(await onMutate?.(variables, context)), latchkeyIntent: `mutation:${newKey()}` };
    },
  };
}

/** Of mutations that run in this page: TanStack's own retries come with the context of the first try. */
const running = new WeakMap<MutationContext, string>();
const claimed = new WeakSet<CachedMutation>();

/** TanStack does not say which mutation calls: it is one with these very variables that nobody has claimed. */
function claim(mutationKey: readonly unknown[], variables: unknown, context: MutationContext): string {
  for (const mutation of context.client.getMutationCache().getAll()) {
    const { status, variables: own, context: kept } = mutation.state;
    const isOurs = status === "pending" && Object.is(own, variables) && !claimed.has(mutation);
    if (!isOurs || !isKept(kept) || !isSameKey(mutation.options.mutationKey, mutationKey)) continue;
    claimed.add(mutation);
    running.set(context, kept.latchkeyIntent);
    return kept.latchkeyIntent;
  }
  throw new TypeError(
    "The mutation has no intent: give onMutate in the options of idempotentMutation, not beside them",
  );
}

/** For `dehydrateOptions.shouldDehydrateMutation`: TanStack itself keeps paused mutations alone, and drops those in flight. */
export function isPendingMutation(mutation: { readonly state: { readonly status: string } }): boolean {
  return mutation.state.status === "pending";
}

/**
 * Goes on with the mutations that were persisted while they were pending, one after the other, oldest first. TanStack's
 * `resumePausedMutations` leaves those that were in flight. Calling it again, or both, sends nothing twice.
 */
export async function resumeMutations(queryClient: MutationClient): Promise<void> {
  const pending = queryClient.getMutationCache().getAll().filter(isPendingMutation);
  for (const mutation of [...pending].sort(
    (left, right) => left.state.submittedAt - right.state.submittedAt,
  )) {
    // Its own callbacks and state have the error.
    await mutation.continue().catch(() => {});
  }
}

function isKept(context: unknown): context is KeptIntent {
  return typeof context === "object" && context !== null && "latchkeyIntent" in context;
}

function isSameKey(left: readonly unknown[] | undefined, right: readonly unknown[]): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
