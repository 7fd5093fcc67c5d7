"""How a feedback page looks: light and dark by the reader's system, readable on paper and on a phone."""

# Text and signs reach 4.5 to 1 against their background in both themes (WCAG 2.2), as axe measures it.
STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --soft: #595959; --line: #d0d0d0;
  --code: #f5f5f5; --good: #1e7a46; --bad: #b3261e; --rest: #5f5f5f; --odd: #8a5000; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #191919; --soft: #b0b0b0;
  --line: #4a4a4a; --code: #242424; --good: #7fd6a0; --bad: #ff9a90; --rest: #b8b8b8; --odd: #f0b860; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1rem 1.2rem 4rem; }
p, h1, h2, th { overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 1rem 0 0; } h2 { font-size: 1.15rem; margin: 0; }
h3 { font-size: 1rem; margin: 1rem 0 0.3rem; }
a { color: inherit; } .soft { color: var(--soft); } .points { white-space: nowrap; }
.total { font-size: 1.3rem; font-weight: 600; margin: 0.2rem 0 1rem; }
.note { border-left: 4px solid var(--odd); padding: 0.2rem 0.8rem; margin: 0.8rem 0; }
table { border-collapse: collapse; } th { text-align: left; font-weight: normal; }
td, th { padding: 0.15rem 1rem 0.15rem 0; vertical-align: top; } thead th { color: var(--soft); }
td.sign, th.device { text-align: center; padding: 0.15rem 0.7rem; }
.wide { overflow-x: auto; } .wide + .wide { margin-top: 0.6rem; }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: 1rem; }
section > header { display: flex; justify-content: space-between; gap: 2rem; align-items: baseline; }
.passed { color: var(--good); } .failed, .timeout, .killed, .memory { color: var(--bad); }
.error, .grader-error { color: var(--odd); } .not-attempted, .skipped { color: var(--rest); }
.mark { font-weight: 700; } .headline { margin: 0.3rem 0 0.8rem; }
pre { background: var(--code); padding: 0.7rem 0.9rem; margin: 0.3rem 0; border-radius: 4px;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 0.9rem/1.45 ui-monospace, monospace; tab-size: 4; }
td pre { background: none; padding: 0; margin: 0; }
@media print { section { break-inside: avoid; } }
"""
