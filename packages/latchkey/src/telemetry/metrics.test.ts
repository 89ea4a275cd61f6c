/** Events change the right metrics, in Prometheus' text and on a real OpenTelemetry SDK. */
import type { Meter, ObservableGauge } from "@opentelemetry/api";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { describe, expect, expectTypeOf, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey, type Latchkey, NotExecuted } from "../index.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { EventListener, LatchkeyEvent } from "./events.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import {
  type GaugeMeter,
  type MetricMeter,
  openTelemetryGauges,
  openTelemetryMetrics,
} from "./opentelemetry.ts";

const canary = "canary-key-4711";

/** A first request, its replay, one with another body, and one that fails without effect. */
async function traffic(onEvent: EventListener): Promise<void> {
  const latchkey = createLatchkey({ store: memoryStore(), onEvent });
  const pay = latchkey.operation("payments.create", { writes: "none" });
  const mail = latchkey.operation("mail.send", { execution: "lease" });
  const request = (input: unknown) => ({ tenant: "shop-1", key: canary, input });
  await latchkey.run(pay, request({ amount: 1 }), async () => "paid");
  await latchkey.run(pay, request({ amount: 1 }), async () => "paid");
  await latchkey.run(pay, request({ amount: 2 }), async () => "paid");
  await latchkey.run(mail, request(null), async () => "sent");
  await latchkey
    .run(mail, { tenant: "shop-2", key: "other", input: null }, async () => {
      throw new NotExecuted();
    })
    .catch(() => {});
  await latchkey.close();
}

/** Values by series, without comments. */
function seriesOf(text: string): ReadonlyMap<string, number> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(" ");
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

function feed(metrics: Metrics, events: readonly object[]): ReadonlyMap<string, number> {
  for (const event of events) metrics.onEvent(event as LatchkeyEvent);
  return seriesOf(metrics.text());
}

describe("Prometheus' text", () => {
  test("counts the outcomes of requests, and measures how long work took", async () => {
    const metrics = createMetrics();
    await traffic(metrics.onEvent);
    const text = metrics.text();
    const series = seriesOf(text);
    const counted = (name: string, labels: string) =>
      series.get(`api_idempotency_${name}_total{${labels}}`) ?? 0;
    expect(counted("reserve_created", 'operation="payments.create"')).toBe(1);
    expect(counted("reserve_created", 'operation="mail.send"')).toBe(2);
    expect(counted("reserve_replay", 'operation="payments.create"')).toBe(1);
    expect(counted("reserve_key_misuse", 'operation="payments.create",because="fingerprint"')).toBe(1);
    expect(counted("tenant_requests", 'tenant="shop-1",duplicate="false"')).toBe(2);
    expect(counted("tenant_requests", 'tenant="shop-1",duplicate="true"')).toBe(1);
    expect(series.get('api_idempotency_execution_duration_seconds_count{operation="mail.send"}')).toBe(1);
    expect(
      series.get('api_idempotency_execution_duration_seconds_bucket{operation="mail.send",le="+Inf"}'),
    ).toBe(1);
    expect(text).not.toContain(canary);
    expect(text).toMatch(/^# HELP api_idempotency_reserve_created_total [^\n]+\n# TYPE \S+ counter\n/u);
    expect(text.endsWith("\n")).toBe(true);
  });

  const about = { operation: "op", tenant: "t", keyHash: "h", recordId: "r" };
  test.each([
    [{ ...about, type: "in_progress" }, 'reserve_in_progress_total{operation="op"}', 1],
    [{ ...about, type: "unknown" }, 'reserve_unknown_total{operation="op"}', 1],
    [{ ...about, type: "taken_over", from: "retryable" }, 'reserve_failed_retry_total{operation="op"}', 1],
    [
      { ...about, type: "executed", execution: "transaction", attempt: 2, durationMs: 1 },
      'reserve_failed_retry_total{operation="op"}',
      1,
    ],
    [
      { ...about, type: "taken_over", from: "in_progress" },
      'zombie_key_total{operation="op",became="taken_over"}',
      1,
    ],
    [{ ...about, type: "lease_rescued" }, 'zombie_key_total{operation="op",became="unknown"}', 1],
    [{ ...about, type: "store_error" }, 'store_error_total{operation="op"}', 1],
    [{ ...about, type: "reconcile_scheduled" }, 'reconcile_scheduled_total{operation="op"}', 1],
    [{ ...about, type: "reconcile_resolved" }, 'reconcile_resolved_total{operation="op"}', 1],
    [{ ...about, type: "reconcile_failed" }, 'reconcile_failed_total{operation="op"}', 1],
    [
      { type: "cleaned", abandoned: 0, purged: 3, forgotten: 2, effects: 0, messages: 0, audit: 0 },
      'ttl_pruned_total{what="answer"}',
      3,
    ],
    [{ ...about, type: "dead_letter" }, 'dead_letter_total{kind="record",operation="op"}', 1],
    [{ ...about, type: "effect_dead" }, 'dead_letter_total{kind="effect",operation="op"}', 1],
    [{ ...about, type: "message_dead" }, 'dead_letter_total{kind="message",operation="op"}', 1],
    [{ type: "circuit_opened", store: "s" }, 'circuit_opened_total{store="s"}', 1],
  ])("%j", (event, series, value) => {
    expect(feed(createMetrics(), [event]).get(`api_idempotency_${series}`)).toBe(value);
  });

  test("labels are escaped, and tenants beyond the limit are counted together", () => {
    const event = (tenant: string) => ({ ...about, type: "replayed", tenant, operation: 'a"b\\c\nd' });
    const series = feed(createMetrics({ tenantsMax: 2 }), ["a", "b", "c", "d", "a"].map(event));
    const tenants = [...series].filter(([name]) => name.includes("tenant_requests"));
    expect(tenants.map(([name, value]) => [/tenant="([^"]+)"/u.exec(name)?.[1], value])).toEqual([
      ["a", 2],
      ["b", 1],
      ["(other)", 2],
    ]);
    expect(series.get('api_idempotency_reserve_replay_total{operation="a\\"b\\\\c\\nd"}')).toBe(5);
  });

  test.each([-1, 1.5, 10_001, Number.NaN])("tenantsMax %d is refused", (tenantsMax) => {
    expect(() => createMetrics({ tenantsMax })).toThrow(RangeError);
  });
});

/** A key whose outcome is unknown, and one that is to be retried. */
async function leaveWaiting(latchkey: Latchkey<MemoryTransaction>): Promise<void> {
  const charge = latchkey.operation("cards.charge", { execution: "lease" });
  const fail = async (key: string, error: Error) => {
    await latchkey
      .run(charge, { tenant: "t", key, input: null }, async () => Promise.reject(error))
      .catch(() => {});
  };
  await fail(canary, new Error("the socket was lost"));
}

test("gauges show how much waits now, and for how long", async () => {
  const ports = manualPorts();
  const latchkey = createLatchkey({ store: memoryStore({ ports }), ports });
  const metrics = createMetrics();
  await leaveWaiting(latchkey);
  await ports.clock.advance(90_000);
  const text = metrics.text(await latchkey.overview());
  const series = seriesOf(text);
  expect(series.get('api_idempotency_waiting{kind="record_unknown"}')).toBe(1);
  expect(series.get('api_idempotency_waiting_oldest_age_seconds{kind="record_unknown"}')).toBe(90);
  expect(series.get('api_idempotency_waiting{kind="effect_dead"}')).toBe(0);
  expect(text).not.toContain(canary);
  expect(metrics.text(), "without an overview there are none").not.toContain("waiting");
});

test.each([0, 1.5, 100_001, Number.NaN])("countMax %d is refused", async (countMax) => {
  const latchkey = createLatchkey({ store: memoryStore() });
  await expect(latchkey.overview({ countMax })).rejects.toThrow(TypeError);
});

test("a real OpenTelemetry SDK receives the same counts", async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  await traffic(openTelemetryMetrics({ meter: provider.getMeter("latchkey") }));
  await provider.forceFlush();
  const found = exporter
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((one) => one.metrics));
  const points = (name: string) =>
    found
      .filter(({ descriptor }) => descriptor.name === name)
      .flatMap(({ dataPoints }) => dataPoints.map(({ attributes, value }) => ({ attributes, value })));
  expect(points("api.idempotency.reserve.created.count")).toEqual([
    { attributes: { operation: "payments.create" }, value: 1 },
    { attributes: { operation: "mail.send" }, value: 2 },
  ]);
  expect(points("api.idempotency.reserve.replay.count")).toEqual([
    { attributes: { operation: "payments.create" }, value: 1 },
  ]);
  expect(points("api.idempotency.execution.duration")).toMatchObject([
    { attributes: { operation: "payments.create" }, value: { count: 1 } },
    { attributes: { operation: "mail.send" }, value: { count: 1 } },
  ]);
  expect(JSON.stringify(found)).not.toContain(canary);
  await provider.shutdown();
});

test("a real OpenTelemetry SDK collects the gauges", async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  const latchkey = createLatchkey({ store: memoryStore() });
  openTelemetryGauges({ meter: provider.getMeter("latchkey"), latchkey });
  await leaveWaiting(latchkey);
  await provider.forceFlush();
  const found = exporter
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((one) => one.metrics));
  const waiting = found.find(({ descriptor }) => descriptor.name === "api.idempotency.waiting");
  const values = new Map(waiting?.dataPoints.map(({ attributes, value }) => [attributes.kind, value]));
  expect(values.get("record_unknown")).toBe(1);
  expect(values.get("message_dead")).toBe(0);
  expect(found.map(({ descriptor }) => descriptor.name)).toContain("api.idempotency.waiting.oldest_age");
  await provider.shutdown();
});

test("OpenTelemetry's own meter fits the type; other values are refused", () => {
  expectTypeOf<Meter>().toExtend<MetricMeter>();
  expectTypeOf<Meter>().toExtend<GaugeMeter<ObservableGauge>>();
  expect(() => openTelemetryMetrics({ meter: {} as never })).toThrow(TypeError);
  expect(() => openTelemetryGauges({ meter: {} as never, latchkey: {} as never })).toThrow(TypeError);
});
