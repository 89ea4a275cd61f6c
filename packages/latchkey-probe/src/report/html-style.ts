/** Light and dark, following the reader's setting. */
export const htmlStyle = `
:root { color-scheme: light dark; --line: #d0d4da; --soft: #f5f6f8; --bad: #b3261e; --good: #1b6e3c; --open: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3f47; --soft: #1d2025; --bad: #ff8a80; --good: #7ddc9f; --open: #f2c063; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 0; }
code, pre { font: 12px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } .verdict { display: inline-block; min-width: 4.5rem; font-weight: 600; }
.passed { color: var(--good); } .faulty { color: var(--bad); } .inconclusive { color: var(--open); }
li.faulty { color: inherit; } li.faulty strong { color: var(--bad); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; vertical-align: top; border-top: 1px solid var(--line); padding: .3rem .5rem; }
th { background: var(--soft); }
`;
