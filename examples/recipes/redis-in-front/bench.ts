/**
 * What a new key costs, and what a replay saves, on your machine. Start the service with BENCH=1, then:
 * URL=http://localhost:3000 node bench.ts
 */
const { URL: url = "http://localhost:3000", SECONDS = "5", CONNECTIONS = "16" } = process.env;
const run = crypto.randomUUID();

async function post(path: string, key: string): Promise<void> {
  const headers = {
    authorization: "Bearer acme-token",
    "content-type": "application/json",
    "idempotency-key": key,
  };
  const response = await fetch(url + path, { method: "POST", headers, body: '{"item":"teapot"}' });
  await response.arrayBuffer();
  if (response.status !== 201) throw new Error(`${path} answered ${response.status}`);
}

async function measure(name: string, path: string, keyOf: (count: number) => string): Promise<void> {
  await post(path, keyOf(0));
  const times: number[] = [];
  const end = performance.now() + Number(SECONDS) * 1_000;
  let count = 0;
  const client = async () => {
    while (performance.now() < end) {
      const began = performance.now();
      count += 1;
      await post(path, keyOf(count));
      times.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: Number(CONNECTIONS) }, client));
  times.sort((a, b) => a - b);
  const at = (share: number) => `${(times[Math.floor(times.length * share)] ?? 0).toFixed(1)} ms`;
  const perSecond = Math.round(times.length / Number(SECONDS));
  console.log(`${name.padEnd(34)} ${String(perSecond).padStart(6)} req/s   p50 ${at(0.5)}   p99 ${at(0.99)}`);
}

await measure("plain: no key, nothing kept", "/orders/plain", () => "-");
await measure("miss: a new key for each request", "/orders", (count) => `${run}-${count}`);
await measure("hit: one key, answered from Redis", "/orders", () => `${run}-hit`);
