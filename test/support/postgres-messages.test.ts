import { expect, it } from "vitest";
import { isCommit, isCommitReply, postgresSplitter } from "./postgres-messages.ts";

/** A typed message with NUL-terminated strings for a body. */
function message(type: string, ...texts: string[]): Buffer {
  const body = Buffer.from(texts.map((text) => `${text}\0`).join(""));
  const head = Buffer.alloc(5, type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

function untyped(code: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeInt32BE(8);
  bytes.writeInt32BE(code, 4);
  return bytes;
}

const PROTOCOL_3 = untyped(196_608);
const SSL_REQUEST = untyped(80_877_103);

it("splits the stream the same way at every possible chunk boundary", () => {
  const stream = Buffer.concat([
    PROTOCOL_3,
    message("Q", "BEGIN"),
    message("P", "end_it", "COMMIT"),
    message("B", "", "end_it"),
    message("E", ""),
    message("S"),
  ]);
  for (let cut = 0; cut <= stream.length; cut += 1) {
    const splitter = postgresSplitter();
    const messages = [...splitter.up(stream.subarray(0, cut)), ...splitter.up(stream.subarray(cut))];
    expect(messages.map(({ type, sql }) => [type, sql])).toEqual([
      ["startup", undefined],
      ["Q", "BEGIN"],
      ["P", "COMMIT"],
      ["B", "COMMIT"],
      ["E", "COMMIT"],
      ["S", undefined],
    ]);
    expect(Buffer.concat(messages.map(({ bytes }) => bytes))).toEqual(stream);
  }
});

it("finds COMMIT by the statement's name once it was prepared", () => {
  const splitter = postgresSplitter();
  splitter.up(
    Buffer.concat([PROTOCOL_3, message("P", "end_it", " commit "), message("P", "other", "select 1")]),
  );
  expect(splitter.up(message("B", "", "other")).some(isCommit)).toBe(false);
  expect(splitter.up(message("B", "", "end_it")).some(isCommit)).toBe(true);
});

it("recognises COMMIT and END as a commit, and no other word or position", () => {
  const commit = (sql: string) => {
    const splitter = postgresSplitter();
    splitter.up(PROTOCOL_3);
    return splitter.up(message("Q", sql)).some(isCommit);
  };
  expect(["COMMIT", "commit;", "\n end", "COMMIT AND CHAIN"].map(commit)).toEqual([true, true, true, true]);
  expect(["COMMITTED", "select 'COMMIT'", "ROLLBACK", "ENDING"].map(commit)).toEqual([
    false,
    false,
    false,
    false,
  ]);
});

it("reads the single byte that replies to a request for encryption", () => {
  const splitter = postgresSplitter();
  expect(splitter.up(SSL_REQUEST).map(({ type }) => type)).toEqual(["encryption"]);
  const replies = splitter.down(Buffer.concat([Buffer.from("N"), message("C", "COMMIT")]));
  expect(replies.map(({ type }) => type)).toEqual(["encryption", "C"]);
  expect(replies.map(isCommitReply)).toEqual([false, true]);
  expect(splitter.up(PROTOCOL_3).map(({ type }) => type)).toEqual(["startup"]);
});

it("reads command tags and error codes", () => {
  const splitter = postgresSplitter();
  const [done, error] = splitter.down(
    Buffer.concat([message("C", "INSERT 0 1"), message("E", "SERROR", "VERROR", "C40001", "Mserialize", "")]),
  );
  expect(done).toMatchObject({ type: "C", tag: "INSERT 0 1" });
  expect(error).toMatchObject({ type: "E", code: "40001" });
});
