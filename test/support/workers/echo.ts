import { createInterface } from "node:readline";

/** Answers every line with `{ echo }`; the beat shows from outside whether it runs. */
console.log(JSON.stringify({ ready: true, pid: process.pid }));
let beat = 0;
setInterval(() => console.log(JSON.stringify({ beat: ++beat })), 20);
for await (const line of createInterface({ input: process.stdin })) {
  const value: unknown = JSON.parse(line);
  if (value === "fail") throw new Error("asked to fail");
  console.log(JSON.stringify({ echo: value }));
}
