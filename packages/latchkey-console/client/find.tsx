/** The look-up that leads to a record. */
import { useEffect, useState } from "preact/hooks";
import type { Inspected } from "../src/wire.ts";
import { Empty, Loading, Notice } from "./parts.tsx";
import { Main } from "./shell.tsx";
import { addressOf, go, route } from "./state.ts";
import { useAnswer } from "./use-answer.ts";

/** One field for an id or a downstream key, and fields for the tenant, operation and key of the client. */
export function FindPage() {
  const { query } = route.value;
  const name = query.get("q");
  const sent = { tenant: query.get("tenant"), operation: query.get("operation"), key: query.get("key") };
  const isBySent = sent.tenant !== null && sent.operation !== null && sent.key !== null;
  return (
    <Main>
      <header class="head">
        <h1>Look up a record</h1>
        <p class="lead">
          By its id, by the downstream key of one of its calls or effects, or by the tenant, operation and
          key.
        </p>
      </header>
      <ByKey sent={sent} />
      {isBySent && <Found name={sent.key ?? ""} query={{ ...sent }} />}
      {!isBySent && name !== null && <Found name={name} query={{ name }} />}
    </Main>
  );
}

function ByKey({ sent }: { readonly sent: Readonly<Record<"tenant" | "operation" | "key", string | null>> }) {
  const [fields, setFields] = useState({
    tenant: sent.tenant ?? "",
    operation: sent.operation ?? "",
    key: sent.key ?? "",
  });
  const names = ["tenant", "operation", "key"] as const;
  return (
    <form
      class="by-key after-head"
      onSubmit={(event) => {
        event.preventDefault();
        go(addressOf("records", fields));
      }}
    >
      {names.map((name) => (
        <div class="field" key={name}>
          <label for={`by-${name}`}>
            {name === "key" ? "Idempotency key" : name === "tenant" ? "Tenant" : "Operation"}
          </label>
          <input
            id={`by-${name}`}
            type="text"
            class={name === "tenant" ? "" : "mono"}
            autocomplete="off"
            spellcheck={false}
            required
            value={fields[name]}
            onInput={(event) => setFields({ ...fields, [name]: event.currentTarget.value })}
          />
        </div>
      ))}
      <button class="button primary" type="submit">
        Look up
      </button>
    </form>
  );
}

function Found({
  name,
  query,
}: {
  readonly name: string;
  readonly query: Readonly<Record<string, string | null>>;
}) {
  const found = useAnswer<Inspected>("inspect", query);
  const id = found.value?.kind === "record" ? found.value.report.id : null;
  useEffect(() => {
    if (id !== null) go(addressOf(`record/${id}`), true);
  }, [id]);
  if (found.problem !== null) return <Notice problem={found.problem} class="after-head" />;
  const value = found.value;
  if (value === null || value.kind === "record") return <Loading label="Looking it up" />;
  if (value.kind === "not_found") return <NotFound name={name} />;
  if (value.kind === "ambiguous") {
    return (
      <Empty title="Several records have this key">
        {value.recordIds.map((one) => (
          <p key={one}>
            <a class="mono" href={addressOf(`record/${one}`)}>
              {one}
            </a>
          </p>
        ))}
      </Empty>
    );
  }
  const what = value.kind === "effect" ? value.effect.effect : value.message.operation;
  return (
    <Empty title={`It is a dead ${value.kind === "effect" ? "effect" : "message"} of ${what}`}>
      <p>
        <a href={addressOf("dead")}>See the dead letters</a>
      </p>
    </Empty>
  );
}

export function NotFound({ name }: { readonly name: string }) {
  return (
    <Empty title={`Nothing is stored under ${name}`}>
      <p>
        It never arrived, was released because nothing happened, was forgotten, or is running now in a
        transaction that writes its record at COMMIT.
      </p>
    </Empty>
  );
}
