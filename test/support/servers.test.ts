import { connect } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { notRun } from "./not-run.ts";
import { startPostgres } from "./private-postgres.ts";
import { identify, isAlive } from "./process-tree.ts";
import { fakeClock, type ServerRecipe, startServer } from "./servers.ts";

/** A server that every machine with these tests has: Node. */
const script = `
  const [port, secret] = process.argv.slice(1);
  console.log("listening on", port);
  if (port === "fail") process.exit(3);
  require("node:net").createServer((socket) => socket.end(process.cwd())).listen(port, "127.0.0.1");
`;

const recipe: ServerRecipe = {
  name: "a server",
  variable: "LATCHKEY_TEST_SERVER_URL",
  program: { names: ["node"] },
  arguments: ({ port }) => ["-e", script, String(port)],
  url: ({ port }) => `tcp://127.0.0.1:${port}`,
  answers: async (url) => (await ask(url)) !== "",
};

function ask(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.setEncoding("utf8");
    let answer = "";
    socket.on("data", (text) => {
      answer += text;
    });
    socket.on("error", reject);
    socket.on("end", () => resolve(answer));
  });
}

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

describe("a server that npm cannot supply", () => {
  it("is taken from the environment first", async () => {
    vi.stubEnv("LATCHKEY_TEST_SERVER_URL", "tcp://elsewhere:1");
    expect(await startServer(recipe)).toMatchObject({ url: "tcp://elsewhere:1", pid: undefined });
  });

  it("is started privately from a program on this machine, and stopped", async () => {
    const server = await startServer(recipe);
    expect(await ask(server?.url ?? "")).toMatch(/lk-/);
    expect(server?.log()).toContain("listening on");
    const identity = identify(server?.pid ?? 0);
    await server?.stop();
    expect(isAlive(identity)).toBe(false);
  });

  it("fails with its log when it exits", async () => {
    const failing = { ...recipe, arguments: () => ["-e", script, "fail"] };
    await expect(startServer(failing)).rejects.toThrow(/a server did not start:\nlistening on fail/);
  });

  it("is reported as not run if the program is missing, which is a failure in CI", async () => {
    const report = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const absent = { ...recipe, program: { names: ["no-such-program"] } };
    vi.stubEnv("CI", "");
    vi.stubEnv("LATCHKEY_TEST_NOT_RUN", undefined);
    expect(await startServer(absent)).toBeUndefined();
    expect(report).toHaveBeenCalledWith(
      expect.stringMatching(/^not run: a server \(no LATCHKEY_TEST_SERVER_URL/),
    );
    vi.stubEnv("CI", "true");
    await expect(startServer(absent)).rejects.toThrow("not run: a server");
    expect(() => notRun("it", "no reason")).toThrow("in CI everything has to run");
  });
});

it("moves a running server's wall clock in both directions, but not the machine's", async (context) => {
  const clock = fakeClock();
  if (!clock) return context.skip("libfaketime is not installed");
  await using server = await startPostgres({ env: clock.environment });
  const minutesAhead = async () => {
    const [row] = await server.admin<{ now: Date }>("select clock_timestamp() as now");
    return ((row?.now.getTime() ?? 0) - Date.now()) / 60_000;
  };
  expect(await minutesAhead()).toBeCloseTo(0, 0);
  clock.shift(3_600);
  expect(await minutesAhead()).toBeCloseTo(60, 0);
  clock.shift(-7_200);
  expect(await minutesAhead()).toBeCloseTo(-120, 0);
});
