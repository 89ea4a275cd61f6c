import { useEffect, useState } from "preact/hooks";
import type { Problem } from "../src/wire.ts";
import { act, readSession } from "./api.ts";
import { Icon, Notice } from "./parts.tsx";

/** The address that the command prints has the token after a #, which browsers do not send to the server. */
function tokenFromAddress(): string {
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (token !== "") history.replaceState(null, "", location.pathname + location.search);
  return token;
}

export function SignIn() {
  const [token, setToken] = useState("");
  const [operator, setOperator] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => setToken(tokenFromAddress()), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    const answer = await act("session", { token, operator });
    if (answer.ok) await readSession();
    else setProblem(answer.problem);
  };
  return (
    <main class="sign-in">
      <span class="brand">
        <Icon name="key" size={18} />
        Latchkey
      </span>
      <h1>Sign in to the console</h1>
      {problem !== null && <Notice problem={problem} />}
      <form onSubmit={submit}>
        <div class="field">
          <label for="operator">
            Your name <span class="hint">stored with your decisions</span>
          </label>
          <input
            id="operator"
            type="text"
            autocomplete="username"
            required
            maxLength={100}
            value={operator}
            onInput={(event) => setOperator(event.currentTarget.value)}
          />
        </div>
        <div class="field">
          <label for="token">
            Token <span class="hint">shown where the console was started</span>
          </label>
          <input
            id="token"
            type="password"
            autocomplete="current-password"
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </div>
        <div class="actions">
          <button class="button primary" type="submit">
            Sign in
          </button>
        </div>
      </form>
    </main>
  );
}
