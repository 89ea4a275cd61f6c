/** Writes down what a test has measured, for docs/past-one-machine.md. Nothing is asserted about it. */
export function measured(name: string, numbers: Readonly<Record<string, number>>): void {
  const texts = Object.entries(numbers).map(([what, value]) => `${what}: ${Math.round(value * 10) / 10}`);
  console.info(`measured, ${name}: ${texts.join(", ")}`);
}
