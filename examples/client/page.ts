/** The page of the form. It runs in a browser; the types cover only the parts of the browser that it uses. */
import { createClient, LatchkeyClientError } from "latchkey-client";

interface FormElement {
  onsubmit: ((event: { preventDefault(): void }) => void) | null;
}

interface Page {
  querySelector(selector: "form"): FormElement;
  querySelector(selector: "p"): { textContent: string };
  querySelector(selector: "input"): { value: string };
}

const document: Page = Reflect.get(globalThis, "document");
const status = document.querySelector("p");
const client = createClient({
  onEvent: (event) => {
    if (event.type === "waiting")
      status.textContent = event.reason === "offline" ? "You are offline …" : "Still trying …";
  },
});

/** New for every form: this page keeps it until its order is placed. */
let intent = crypto.randomUUID();

async function show(sent: Promise<Response>): Promise<void> {
  status.textContent = "Ordering …";
  try {
    const response = await sent;
    const order = (await response.json()) as { item?: string };
    status.textContent = response.ok ? `Your ${order.item} is ordered.` : "That did not work.";
    if (response.ok) intent = crypto.randomUUID();
  } catch (error) {
    const code = error instanceof LatchkeyClientError ? error.code : "failed";
    status.textContent = `The outcome is not known yet (${code}). Press the button again.`;
  }
}

document.querySelector("form").onsubmit = (event) => {
  event.preventDefault();
  const body = JSON.stringify({ item: document.querySelector("input").value });
  void show(
    client.fetch("/orders", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
      intent,
    }),
  );
};

// Resumes what a reload has interrupted.
for (const { intent: open, isResumable } of await client.pending()) {
  if (isResumable) void show(client.resume(open));
}
