"""The style of the page. Nothing is loaded; all colours have a contrast of at least 4.5 to 1."""

CSS = """
:root { color-scheme: light; --ink: #1a1a1a; --soft: #4a4a4a; --line: #c9ccd1; --paper: #fff; --ground: #f3f4f6;
  --accent: #0b5394; --warn: #b00020; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5;
  font-family: system-ui, "Segoe UI", "DejaVu Sans", Roboto, sans-serif; }
a { color: var(--accent); }
a:focus-visible, summary:focus-visible, [tabindex]:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: .5rem 1rem; z-index: 1; }
header, main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.75rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 .75rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
.about { color: var(--soft); margin: 0; overflow-wrap: anywhere; }
.badge { display: inline-block; border: 1px solid var(--warn); color: var(--warn); border-radius: .3rem; padding: 0 .45rem;
  font-size: .85rem; font-weight: 600; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; padding: 0; margin: .9rem 0 0; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: .6rem; padding: 1.1rem 1.25rem;
  margin: 1rem 0; }
.verdict p { font-size: 1.08rem; margin: .25rem 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1rem 0 0; padding: 0; }
.cards div { border-left: 4px solid var(--accent); padding: .1rem 0 .1rem .7rem; }
.cards dt { color: var(--soft); font-size: .85rem; }
.cards dd { margin: 0; font-size: 1.35rem; font-weight: 650; line-height: 1.25; }
.cards dd small { display: block; font-size: .8rem; font-weight: 400; color: var(--soft); }
figure { margin: 0 0 1.75rem; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .9rem; margin-bottom: .5rem; }
figcaption b { color: var(--ink); display: block; font-size: 1rem; }
.narrow { display: none; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(21rem, 100%), 1fr)); gap: 0 2.5rem; }
.scroll { overflow-x: auto; margin-top: 1.1rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 650; padding: .3rem 0; font-size: 1rem; }
th, td { padding: .32rem .7rem .32rem 0; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { text-align: left; font-weight: 400; }
thead th { font-weight: 650; border-bottom: 2px solid var(--soft); white-space: nowrap; }
thead th:first-child { font-weight: 650; }
td { white-space: nowrap; }
td.text, th.text { text-align: left; white-space: normal; }
.faster { font-weight: 650; }
details { margin: .75rem 0 0; }
summary { cursor: pointer; color: var(--accent); }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .88em; overflow-wrap: anywhere; }
td details { margin: 0; }
td ul { margin: .2rem 0; padding-left: 1.1rem; white-space: nowrap; }
footer { color: var(--soft); font-size: .85rem; padding-bottom: 2rem; }
@media (max-width: 40rem) {
  header, main, footer { padding-left: .75rem; padding-right: .75rem; }
  section { padding: .9rem .8rem; border-radius: .4rem; }
  .wide { display: none; }
  .narrow { display: block; }
  .cards { grid-template-columns: repeat(2, 1fr); }
}
@media print {
  body { background: #fff; font-size: 10pt; }
  header, main, footer { max-width: none; padding: 0; }
  section { border: 0; padding: 0; border-top: 1px solid #888; border-radius: 0; padding-top: .6rem; }
  nav, .skip { display: none; }
  .wide { display: block; }
  .narrow { display: none; }
  figure, tr, .cards div { break-inside: avoid; }
  h2, caption { break-after: avoid; }
  .scroll { overflow: visible; }
  details:not([open]) { display: none; }
  @page { margin: 15mm; }
}
"""
