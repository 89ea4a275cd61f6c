/** Module `latchkey-client/tanstack-query`: mutations of TanStack Query 5 that take effect once, even across a reload. */
import type { Client } from "./client.ts";
import { newKey } from "./key.ts";

/** The required part of a mutation in the cache. */
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

/** The required part of a `QueryClient`. */
export interface MutationClient {
  getMutationCache(): { getAll(): readonly CachedMutation[] };
}

/** What TanStack Query passes to a mutation function. */
export interface MutationContext {
  readonly client: MutationClient;
}

/** What a mutation function receives here. */
export interface IntentContext {
  /** The mutation's own intent, the same after a reload. */
  readonly intent: string;
  /** `fetch` of the client, under that intent. Send one request that changes something per mutation. */
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
}

export interface IdempotentMutationOptions<Data, Variables> {
  /** The key by which a persisted mutation finds its function again. */
  readonly mutationKey: readonly unknown[];
  /** Sends the request through `context.fetch`. Must throw if the answer is not a success. */
  readonly mutationFn: (variables: Variables, context: IntentContext) => Promise<Data>;
  /** Like TanStack Query's; must return an object or nothing. */
  readonly onMutate?: (
    variables: Variables,
    context: MutationContext,
  ) => object | undefined | Promise<object | undefined>;
}

/** The part of the intent in the mutation's context, which is persisted with it. */
interface KeptIntent {
  readonly latchkeyIntent: string;
}

/**
 * Options for `setMutationDefaults` or `useMutation`: each mutation is an intent. Pass `onMutate` here and not separately,
 * because its return value carries the intent.
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

/** Mutations that run in this page: TanStack's own retries have the context of the first try. */
const running = new WeakMap<MutationContext, string>();
const claimed = new WeakSet<CachedMutation>();

/** TanStack does not pass the mutation: it is one with the same variables object that no call has claimed. */
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
    "The mutation has no intent: pass onMutate in the options of idempotentMutation, not separately",
  );
}

/** For `dehydrateOptions.shouldDehydrateMutation`: TanStack itself keeps only paused mutations, and drops those in flight. */
export function isPendingMutation(mutation: { readonly state: { readonly status: string } }): boolean {
  return mutation.state.status === "pending";
}

/**
 * Resumes the mutations that were persisted while they were pending, one after the other, oldest first. TanStack's
 * `resumePausedMutations` skips those that were in flight. Calling it again, or both, sends nothing twice.
 */
export async function resumeMutations(queryClient: MutationClient): Promise<void> {
  const pending = queryClient.getMutationCache().getAll().filter(isPendingMutation);
  for (const mutation of [...pending].sort(
    (left, right) => left.state.submittedAt - right.state.submittedAt,
  )) {
    // The error is in the mutation's own callbacks and state.
    await mutation.continue().catch(() => {});
  }
}

function isKept(context: unknown): context is KeptIntent {
  return typeof context === "object" && context !== null && "latchkeyIntent" in context;
}

function isSameKey(left: readonly unknown[] | undefined, right: readonly unknown[]): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
