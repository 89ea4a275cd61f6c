import { describe, expect, test } from "vitest";
import { guardClient } from "./guard-client.ts";

class Client {
  sent: unknown[] = [];
  #secret = 7;
  processID = 42;

  query(statement: unknown, _values?: unknown, callback?: (error: Error | null) => void): Promise<string> {
    this.sent.push(statement);
    callback?.(null);
    return Promise.resolve(`answer ${this.#secret}`);
  }
  release(): string {
    return "gone";
  }
  escape(text: string): string {
    return `${text}${this.#secret}`;
  }
}

const rules = { statementMethods: ["query"], refusedMethods: ["release"] };

function guarded() {
  const client = new Client();
  return { client, ...guardClient(client, rules) };
}

describe("before it is revoked", () => {
  test("statements pass, as text, config or query object, and count as use", async () => {
    const { client, tx, used } = guarded();
    expect(used()).toBe(false);
    await expect(tx.query("select 1")).resolves.toBe("answer 7");
    expect(used()).toBe(true);
    const config = { text: "select 2", values: [] };
    const submittable = { text: "select 3", submit: () => {} };
    await tx.query(config);
    await tx.query(submittable);
    await tx.query({ name: "prepared earlier" });
    expect(client.sent).toEqual(["select 1", config, submittable, { name: "prepared earlier" }]);
  });

  test("other methods and fields are the client's own and are no use", () => {
    const { tx, used } = guarded();
    expect(tx.escape("a")).toBe("a7");
    expect(tx.processID).toBe(42);
    expect(tx).toBeInstanceOf(Client);
    expect(tx.constructor).toBe(Client);
    expect(used()).toBe(false);
  });

  test.each([["commit"], [{ text: "select 1; ROLLBACK" }]])(
    "%j is refused and not sent",
    async (statement) => {
      const { client, tx, used } = guarded();
      await expect(tx.query(statement)).rejects.toMatchObject({ code: "transaction-control" });
      expect(client.sent).toEqual([]);
      expect(used()).toBe(false);
    },
  );

  test("a refused query object throws, a callback is called with the error", async () => {
    const { client, tx } = guarded();
    expect(() => tx.query({ text: "begin", submit: () => {} })).toThrow(
      expect.objectContaining({ code: "transaction-control" }),
    );
    const reported = await new Promise<unknown>((resolve) => {
      void tx.query("begin", [], resolve);
    });
    expect(reported).toMatchObject({ code: "transaction-control" });
    expect(client.sent).toEqual([]);
  });

  test("methods that take the connection away are refused by name", async () => {
    const { tx } = guarded();
    await expect(tx.release()).rejects.toMatchObject({
      code: "transaction-control",
      message: "`release()` was called on a handler's `tx`",
    });
  });
});

describe("after it is revoked", () => {
  test("every call is refused, nothing is sent, and use is still what it was", async () => {
    const { client, tx, used, revoke } = guarded();
    const { query } = tx;
    revoke();
    await expect(tx.query("select 1")).rejects.toMatchObject({ code: "tx-revoked" });
    await expect(query("select 1")).rejects.toMatchObject({ code: "tx-revoked" });
    await expect(tx.escape("x")).rejects.toMatchObject({ code: "tx-revoked" });
    await expect(tx.release()).rejects.toMatchObject({ code: "tx-revoked" });
    expect(client.sent).toEqual([]);
    expect(used()).toBe(false);
  });
});
