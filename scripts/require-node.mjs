// Plain JavaScript with old syntax on purpose: it must run on the Node versions that it rejects.
// 22.18 is the first Node that runs TypeScript files without a flag.
const oldest = [22, 18];
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) {
  console.error(
    `Latchkey's repository needs Node ${oldest.join(".")} or newer; this is Node ${process.versions.node}.\n` +
      "npm installs Node 24 into node_modules/.bin and puts it first on PATH for its scripts. It is missing\n" +
      "when install scripts were skipped: run `npm install` without --ignore-scripts, then the same npm script.",
  );
  process.exit(1);
}
