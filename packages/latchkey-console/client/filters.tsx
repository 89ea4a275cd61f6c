/** Filters are stored in the address. Selecting a bar of the histogram is also a filter. */
import type { Census } from "../src/wire.ts";
import { countText } from "./format.ts";
import { Icon } from "./parts.tsx";
import { addressOf, go, route, setQuery } from "./state.ts";

const names = ["errorCode", "effect", "tenant", "operation"] as const;
type FilterName = (typeof names)[number];

const labels: Readonly<Record<FilterName, string>> = {
  errorCode: "Why",
  effect: "Effect",
  tenant: "Tenant",
  operation: "Operation",
};

/** The bounds of `Census.ages`, as milliseconds before now. */
const boundsMs = [60, 300, 900, 1_800, 3_600, 21_600, 86_400, 259_200].map((s) => s * 1_000);
const ticks = ["≤ 1 min", "5 min", "15 min", "30 min", "1 h", "6 h", "1 d", "3 d", "older"];

export function filterQuery(query: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = query.get(name);
      return value === null ? [] : [[name, value] as const];
    }),
  );
}

export function hasFilter(query: URLSearchParams): boolean {
  return [...names, "age"].some((name) => query.get(name) !== null);
}

/** The selected bar as a range of times. */
export function ageRange(query: URLSearchParams, now: number): Readonly<Record<string, string>> {
  const text = query.get("age");
  const bar = text === null ? Number.NaN : Number(text);
  if (!Number.isInteger(bar) || bar < 0 || bar > boundsMs.length) return {};
  const time = (ms: number) => new Date(now - ms).toISOString();
  const [from, to] = [boundsMs[bar - 1], boundsMs[bar]];
  return {
    ...(from !== undefined && { notAfter: time(from) }),
    ...(to !== undefined && { after: time(to) }),
  };
}

interface FilterBarProps {
  readonly census: Census | null;
  readonly query: URLSearchParams;
  /** How many there are without filters. */
  readonly total: number | null;
}

export function FilterBar({ census, query, total }: FilterBarProps) {
  if (!hasFilter(query) && (census === null || census.count < 2)) return null;
  const options = optionsOf(census);
  const age = query.get("age");
  return (
    <fieldset class="filters">
      <legend class="visually-hidden">Filters; they stay after an action and are part of the address</legend>
      {names.map((name) => {
        const value = query.get(name);
        if (value !== null)
          return (
            <Chip key={name} label={labels[name]} value={value} onRemove={() => setFilter(name, null)} />
          );
        const values = options[name];
        return (
          values.length > 1 && (
            <select
              key={name}
              class="filter"
              aria-label={labels[name]}
              value=""
              onChange={(event) => setFilter(name, event.currentTarget.value)}
            >
              <option value="">{labels[name]}</option>
              {values.map(([text, count]) => (
                <option key={text} value={text}>
                  {text} ({countText(count)})
                </option>
              ))}
            </select>
          )
        );
      })}
      {age !== null && (
        <Chip label="Age" value={ticks[Number(age)] ?? age} onRemove={() => setFilter("age", null)} />
      )}
      {hasFilter(query) && (
        <button class="link small" type="button" onClick={() => go(addressOf(route.value.path))}>
          Show all{total === null ? "" : ` ${countText(total)}`}
        </button>
      )}
    </fieldset>
  );
}

function setFilter(name: string, value: string | null): void {
  setQuery({ [name]: value, from: null, open: null });
}

function Chip({
  label,
  value,
  onRemove,
}: {
  readonly label: string;
  readonly value: string;
  readonly onRemove: () => void;
}) {
  return (
    <span class="filter on">
      {label} <b>{value}</b>
      <button
        class="icon-button"
        type="button"
        aria-label={`Remove the filter ${label} ${value}`}
        onClick={onRemove}
      >
        <Icon name="close" />
      </button>
    </span>
  );
}

function optionsOf(
  census: Census | null,
): Readonly<Record<FilterName, readonly (readonly [string, number])[]>> {
  const summed = (of: (cause: Census["causes"][number]) => string | null) => {
    const sums = new Map<string, number>();
    for (const cause of census?.causes ?? []) {
      const name = of(cause);
      if (name !== null) sums.set(name, (sums.get(name) ?? 0) + cause.count);
    }
    return [...sums].sort((left, right) => right[1] - left[1]);
  };
  return {
    errorCode: summed(({ errorCode }) => errorCode),
    effect: summed(({ kind, name }) => (kind === "effect" ? name : null)),
    operation: summed(({ operation }) => operation),
    tenant: (census?.tenants ?? [])
      .slice(0, 200)
      .flatMap(({ tenant, count }) => (tenant === null ? [] : [[tenant, count] as const])),
  };
}

/**
 * Shows at a glance whether many entries appeared at once. Heights are square roots, so that a single entry beside a thousand
 * is visible.
 */
export function Ages({ census, query }: { readonly census: Census | null; readonly query: URLSearchParams }) {
  if (census === null || census.count < 2) return null;
  const most = Math.max(...census.ages, 1);
  const chosen = query.get("age");
  return (
    <section class="ages" aria-labelledby="h-age">
      <h2 class="visually-hidden" id="h-age">
        By age
      </h2>
      <div class="bars">
        {census.ages.map((count, bar) => {
          const style = { "--h": `${count === 0 ? 0 : Math.max(2, Math.sqrt(count / most) * 70)}%` };
          const isOutside = chosen !== null && chosen !== String(bar);
          return (
            <button
              key={ticks[bar]}
              type="button"
              class={isOutside ? "outside" : ""}
              aria-pressed={chosen === String(bar)}
              aria-label={`${count} of age ${ticks[bar]}`}
              onClick={() => setFilter("age", chosen === String(bar) ? null : String(bar))}
            >
              <i style={style} />
              <span style={style}>{count === 0 ? "" : countText(count)}</span>
            </button>
          );
        })}
      </div>
      <div class="ticks" aria-hidden="true">
        {ticks.map((tick) => (
          <span key={tick}>{tick}</span>
        ))}
      </div>
    </section>
  );
}
