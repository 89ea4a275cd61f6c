/** Mistakes in transactions that several messages share. */
import type { Bug } from "./bug.ts";

export const batchBugs: readonly Bug[] = [
  {
    name: "batch: a message that fails is not undone",
    recreates: null,
    changes: [
      {
        file: "sql/pg/parts.ts",
        find: "undo: () => this.#undo(mark, statements),",
        replace: "undo: () => statements.queued(),",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: one savepoint serves all messages, so that the kept ones are undone with one that fails",
    recreates: null,
    changes: [
      {
        file: "sql/pg/parts.ts",
        find: "const statements = follows ? [release, savepoint] : [savepoint];",
        replace: 'const statements = follows ? [control("lk_release", "select 1")] : [savepoint];',
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: the savepoint has a name that a handler may use",
    recreates: null,
    changes: [
      {
        file: "sql/pg/parts.ts",
        find: 'const name = `latchkey_${systemPorts.random.token().replaceAll(/[^0-9a-f]/g, "")}`;',
        replace: 'const name = "latchkey_part";',
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: a message that was undone is recorded with the others",
    recreates: null,
    changes: [
      {
        file: "execution/transaction/shared-transaction.ts",
        find: '    this.#states[place] = { kind: "undone", outcome };',
        replace:
          '    this.#states[place] = { kind: "undone", outcome };\n    const { admitted } = this.#members[place].roundState;\n    const other = this.#records[0];\n    if (other !== undefined && admitted !== null) this.#records.push({ ...other, life: admitted.life, effects: [] });',
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: COMMIT comes with the last message's record alone",
    recreates: null,
    changes: [
      {
        file: "stores/postgres/transactions/batches.ts",
        find: "const rows = records.map(rowOf);",
        replace: "const rows = records.slice(-1).map(rowOf);",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: a handler's `tx` works on among the statements of the next messages",
    recreates: null,
    changes: [{ file: "sql/pg/parts.ts", find: "revoke: guarded.revoke,", replace: "revoke: () => {}," }],
    tiers: ["P4"],
  },
  {
    name: "batch: a statement that was not awaited is sent after ROLLBACK",
    recreates: "found by a review of batches",
    changes: [
      {
        file: "sql/pg/parts.ts",
        find: "const waiting = this.#statements.filter((one) => one.waits);",
        replace: "const waiting: HandlerStatements[] = [];\n    if (waits || !waits) return;",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: a statement that was not awaited is sent behind the next message's savepoint",
    recreates: "found by a review of batches",
    changes: [
      {
        file: "sql/pg/parts.ts",
        find: "if (before?.waits === true) await before.queued();",
        replace: "",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: a setting of one message stays in force for the next ones",
    recreates: "found by a review of batches",
    changes: [
      {
        file: "sql/pg/parts.ts",
        find: "changed ||= guarded.mayHaveChangedSession() || mayLeaveBehind(statementText(args[0]));",
        replace: "changed ||= guarded.mayHaveChangedSession();",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: two messages of one key run in one transaction",
    recreates: null,
    changes: [
      {
        file: "execution/transaction/batches.ts",
        find: "if (keys.has(text)) {",
        replace: "if (false) {",
      },
      {
        // Otherwise the second record of the key would undo both.
        file: "stores/postgres/transactions/batches.ts",
        find: "const rows = records.map(rowOf);",
        replace:
          "const rows = [...new Map(records.map((record) => [record.life.key, rowOf(record)])).values()];",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "batch: messages whose COMMIT is in doubt are acknowledged",
    recreates: null,
    changes: [
      {
        file: "execution/transaction/shared-transaction.ts",
        find: 'if (end.kind === "in_doubt") return { ...end, value: state.ran };',
        replace:
          'if (end.kind === "in_doubt") return { kind: "committed", value: state.ran, expiresAt: Number.NaN };',
      },
    ],
    tiers: ["P4", "P2"],
  },
];
