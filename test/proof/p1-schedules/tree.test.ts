/** Lives of a process that are taken for one: which are, and that a process which tells them apart is found out. */
import { expect, test } from "vitest";
import type { Role } from "./process.ts";
import { type Node, Tree } from "./tree.ts";

/** Asks two things at once, and a third when both are answered. */
function asksTwice(third: (answered: readonly string[]) => readonly unknown[]): Role {
  return async ({ ask }) => {
    const answered: string[] = [];
    const noted = (port: string) => ask(port, []).then(() => answered.push(port));
    await Promise.all([noted("one"), noted("other")]);
    await ask("third", third(answered));
    await ask("fourth", third(["", ...answered].slice(0, 1)));
    return "over";
  };
}

async function replied(tree: Tree, node: Node, port: string, value: unknown = null): Promise<Node> {
  const asked = node.pending.find((one) => one.port === port);
  if (asked === undefined) throw new RangeError(`${port} is not asked for`);
  const name = `${asked.id}.${String(value)}.0`;
  const input = { kind: "reply", call: asked.call, threw: false, value, now: 0 } as const;
  return node.children.get(name) ?? (await tree.grown(node, name, input));
}

/** Both orders. */
async function bothOrders(tree: Tree): Promise<readonly [Node, Node]> {
  const root = await tree.grownRoot(0);
  const one = await replied(tree, await replied(tree, root, "one"), "other");
  const other = await replied(tree, await replied(tree, root, "other"), "one");
  return [one, other];
}

test("the same answers in another order lead to the same", async () => {
  const tree = new Tree(
    "P",
    asksTwice(() => []),
  );
  const [one, other] = await bothOrders(tree);
  expect(other).toBe(one);
  const last = await replied(tree, await replied(tree, one, "third"), "fourth");
  expect(last.outcome).toBe("over");
  expect(tree.compared, "third and fourth, in both lives").toBe(2);
});

test("who is answered something else is another", async () => {
  const tree = new Tree(
    "P",
    asksTwice(() => []),
  );
  const root = await tree.grownRoot(0);
  expect(await replied(tree, root, "one", 1)).not.toBe(await replied(tree, root, "one", 2));
});

test("who asks for something else is another", async () => {
  const tree = new Tree(
    "P",
    asksTwice((answered) => answered),
  );
  const [one, other] = await bothOrders(tree);
  expect(other).not.toBe(one);
});

test("a process that has kept what nobody could see is found out", async () => {
  const role: Role = async ({ ask }) => {
    const answered: string[] = [];
    const noted = (port: string) => ask(port, []).then(() => answered.push(port));
    await Promise.all([noted("one"), noted("other")]);
    await ask("third", []);
    await ask("fourth", answered);
    return "over";
  };
  const tree = new Tree("P", role);
  const [one] = await bothOrders(tree);
  await expect(replied(tree, one, "third")).rejects.toThrow("two lives of P were taken for one and differ");
});

test("also when the second life comes to it after it has gone on", async () => {
  const role: Role = async ({ ask }) => {
    const answered: string[] = [];
    const noted = (port: string) => ask(port, []).then(() => answered.push(port));
    await Promise.all([noted("one"), noted("other")]);
    await ask("third", []);
    await ask("fourth", answered);
    return "over";
  };
  const tree = new Tree("P", role);
  const root = await tree.grownRoot(0);
  const one = await replied(tree, await replied(tree, root, "one"), "other");
  await replied(tree, one, "third");
  const second = await replied(tree, root, "other");
  await expect(replied(tree, second, "one")).rejects.toThrow("two lives of P were taken for one and differ");
});

test("what is asked for twice at a time is two things", async () => {
  const role: Role = async ({ ask }) => {
    const [first, second] = await Promise.all([ask("same", []), ask("same", [])]);
    return `${String(first)} ${String(second)}`;
  };
  const tree = new Tree("P", role);
  const root = await tree.grownRoot(0);
  expect(new Set(root.pending.map(({ id }) => id)).size).toBe(2);
  const once = await replied(tree, root, "same", 1);
  const both = await replied(tree, once, "same", 2);
  expect(both.outcome).toMatch(/^(1 2|2 1)$/);
});
