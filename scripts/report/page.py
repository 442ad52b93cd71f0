"""The page of a report: one file, without a script, that asks for nothing else.

Each number from a file is a <data> element: `value` has it as the file does, and `data-path` says where it stands in the
JSON at the end of the page."""
import json

import figures
from style import CSS
from words import HOST_TIMES, KINDS, escape, ms, size

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def plain(value):
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:g}"


class Numbers:
    """Makes <data> elements, and knows where each number stands."""

    def __init__(self, ranks):
        self.statistics, self.advice, self.plans = [], [], []
        self._place, self._advice_place = {}, {}
        for rank in ranks:
            if rank.path not in self._place:
                self._place[rank.path] = len(self.statistics)
                self.statistics.append(rank.stats)
                self.plans.append(rank.plan)
            if rank.advice:
                self._advice_place[id(rank)] = len(self.advice)
                self.advice.append(rank.advice)

    def found(self):
        return {"statistics": self.statistics, "advice": self.advice, "plans": self.plans}

    def element(self, path, shown):
        value = self.found()
        for step in path:
            value = value[step]
        if value is None:
            return "–"
        return (f'<data value="{value!r}" data-path="{".".join(str(step) for step in path)}">'
                f"{escape(shown(value))}</data>")

    def statistic(self, rank, *path, shown=plain):
        return self.element(("statistics", self._place[rank.path]) + path, shown)

    def memory(self, rank, key, shown=plain):
        return self.statistic(rank, "memory", rank.stats["memory"].index(rank.memory), key, shown=shown)

    def advised(self, rank, *path, shown=plain):
        return self.element(("advice", self._advice_place[id(rank)]) + path, shown)

    def planned(self, rank, *path, shown=plain):
        return self.element(("plans", self._place[rank.path]) + path, shown)

    def json(self):
        text = json.dumps(self.found())
        return text.replace("</", "<\\/").replace("<!--", "<\\u0021--")


# ---- pieces ----

def figure(drawing):
    if drawing is None:
        return ""
    return (f'<figure role="group" aria-labelledby="figure-{drawing.name}">\n'
            f'<figcaption id="figure-{drawing.name}"><b>{escape(drawing.title)}</b>{escape(drawing.text[:1].upper() + drawing.text[1:])}</figcaption>\n'
            f'<div class="wide">{drawing.inline(False)}</div>\n<div class="narrow">{drawing.inline(True)}</div></figure>\n')


def section(name, title, *content):
    inner = "".join(content)
    if not inner.strip():
        return ""
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>\n{inner}</section>\n'


def table(caption, head, rows, text_columns=()):
    """`head` are words; cells of `rows` are HTML, the first of each names the row."""
    if not rows:
        return ""

    def looks(place):
        return ' class="text"' if place in text_columns else ""

    lines = [f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>',
             f"<caption>{escape(caption)}</caption><thead><tr>"]
    lines += [f'<th scope="col"{looks(place)}>{escape(word)}</th>' for place, word in enumerate(head)]
    lines.append("</tr></thead><tbody>")
    for row in rows:
        cells = "".join(f"<td{looks(place)}>{cell}</td>" for place, cell in enumerate(row) if place)
        lines.append(f'<tr><th scope="row">{row[0]}</th>{cells}</tr>')
    lines.append("</tbody></table></div>\n")
    return "\n".join(lines)


def beside(ranks, *tables):
    """Tables of few columns next to each other, where there is room."""
    return f'<div class="beside">{"".join(tables)}</div>\n' if len(ranks) < 3 and any(tables) else "".join(tables)


def side_by_side(caption, ranks, rows):
    """A column for each rank; a row is (words, rank -> HTML)."""
    if not ranks:
        return ""
    head = [""] + [rank.label or "this run" for rank in ranks]
    return table(caption, head, [[escape(words)] + [cell(rank) for rank in ranks] for words, cell in rows])


def within_budget(ranks):
    return [rank for rank in ranks if rank.memory]


# ---- sections ----

def verdict(ranks):
    lines = []
    for rank in figures.processes(ranks):
        before = f"<b>{escape(rank.label)}</b> " if rank.label else ""
        lines += [f"<p>{before}{escape(line)}</p>" for line in rank.stats.get("verdict", [])]
    return "".join(lines)


def cards(ranks, numbers):
    """Of the first rank with a budget; the others are in the tables."""
    found = within_budget(ranks)
    if not found:
        return ""
    rank = found[0]

    def memory(key, shown):
        return numbers.memory(rank, key, shown)

    asked = "need_bytes" if rank.memory.get("need_bytes") else "peak_live_bytes"
    items = [("budget", memory("budget_bytes", size), f"of {memory(asked, size)} that it asked for"),
             ("an iteration takes", memory("round_ms", ms), f"{memory('compute_ms', ms)} of it operations"),
             ("no schedule is faster than", memory("link_bound_ms", ms), "link bound for this budget"),
             ("to the host and back", memory("out_bytes", size), f"{memory('in_bytes', size)} back, in all")]
    return '<dl class="cards">' + "".join(
        f"<div><dt>{escape(words)}</dt><dd>{value}<small>{more}</small></dd></div>" for words, value, more in items) + "</dl>"


def kinds(ranks, numbers):
    shown = [rank for rank in ranks if rank.advice and rank.advice.get("iteration")]
    if not shown:
        return ""

    def cell(kind):
        return lambda rank: escape(size(figures.kinds_at_most(rank.advice["iteration"]).get(kind, 0)))

    rows = [(words, cell(kind)) for kind, words in KINDS.items()]
    rows.append(("budget", lambda rank: numbers.advised(rank, "iteration", "budget_bytes", shown=size)))
    return side_by_side("At the fullest moment of the planned iteration", shown, rows)


def memory_table(ranks, numbers):
    rows = (("budget", "budget_bytes"), ("held at most", "peak_resident_bytes"), ("in use on average", "average_resident_bytes"),
            ("the program had at once", "peak_live_bytes"), ("memory that cannot be virtual, at most", "peak_other_bytes"),
            ("cannot leave", "pinned_live_bytes"), ("largest operation", "largest_operation_bytes"),
            ("smallest budget, as far as known", "smallest_budget_bytes"), ("pinned on the host", "host_bytes"))
    return side_by_side("Memory of the run", within_budget(ranks),
                        [(words, lambda rank, key=key: numbers.memory(rank, key, size)) for words, key in rows])


def moves(ranks, numbers):
    sizes = (("copied to the host", "out_bytes"), ("copied back", "in_bytes"), ("left again without a copy", "saved_bytes"),
             ("planned per iteration, out", "period_out_bytes"), ("planned per iteration, back", "period_in_bytes"))
    counts = (("leaves ahead of time", "planned_leaves"), ("leaves on demand", "demand_leaves"),
              ("returns ahead of time", "planned_returns"), ("returns on demand", "demand_returns"),
              ("called off", "called_off"), ("operations with a part in host memory", "tail_operations"),
              ("waits of the host", "host_waits"))
    found = within_budget(ranks)
    copied = [(words, lambda rank, key=key: numbers.memory(rank, key, size)) for words, key in sizes]
    counted = [(words, lambda rank, key=key: numbers.memory(rank, key)) for words, key in counts]
    counted.append(("the host waited", lambda rank: numbers.memory(rank, "host_wait_ms", ms)))
    return beside(ranks, side_by_side("Bytes of the whole run", found, copied),
                  side_by_side("Moves of the whole run", found, counted))


def share(bound, took):
    return f"{100 * bound / took:.0f} %" if bound and took else "–"


def time_table(ranks, numbers):
    def of(key):
        return lambda rank: numbers.memory(rank, key, ms) if rank.memory.get(key) else "–"

    rows = [("an iteration took", of("round_ms")), ("operations on the device", of("compute_ms")),
            ("without moves it would take", of("without_moves_ms")),
            ("link bound: no schedule is faster", of("link_bound_ms")), ("schedule bound: what the plan expects", of("predicted_ms")),
            ("speed, of the link bound's", lambda rank: share(rank.memory["link_bound_ms"], rank.memory["round_ms"])),
            ("speed, of the plan's", lambda rank: share(rank.memory["predicted_ms"], rank.memory["round_ms"]))]
    return side_by_side("An iteration and its bounds", within_budget(ranks), rows)


def host_table(ranks, numbers):
    found = [rank for rank in within_budget(ranks) if rank.memory["round_ms"]]
    rows = [(words, lambda rank, key=key: numbers.memory(rank, f"round_{key}_ms", ms)) for key, words in HOST_TIMES.items()]
    return side_by_side("Of an iteration, the host was in the library for", found, rows)


def budgets_table(ranks, numbers):
    found = next((rank for rank in ranks if rank.advice), None)
    if not found:
        return forecasts(ranks, numbers)
    rows = []
    for place, row in enumerate(found.advice["rows"]):
        if row["gpu"] is not None:
            continue

        def cell(key, shown, place=place, row=row):
            return numbers.advised(found, "rows", place, key, shown=shown) if key in row else "–"

        slower = f"{100 * (row['ms'] / row['compute_ms'] - 1):+.0f} %" if row.get("ms") and row["compute_ms"] else "–"
        rows.append([cell("budget_bytes", size), cell("ms", ms), slower, cell("bound_ms", ms), cell("out_bytes", size),
                     cell("host_bytes", size)])
    return table("Predicted for other budgets on this GPU",
                 ["budget", "iteration", "moves add", "link bound", "out, each iteration", "pinned on the host"], rows)


def forecasts(ranks, numbers):
    rank = next((rank for rank in within_budget(ranks) if rank.memory.get("forecast")), None)
    if not rank:
        return ""
    place = rank.stats["memory"].index(rank.memory)
    rows = [[numbers.statistic(rank, "memory", place, "forecast", number, "budget_bytes", shown=size),
             numbers.statistic(rank, "memory", place, "forecast", number, "ms", shown=ms),
             numbers.statistic(rank, "memory", place, "forecast", number, "moved_bytes", shown=size)]
            for number in range(len(rank.memory["forecast"]))]
    return table("Predicted for other budgets", ["budget", "iteration", "moves, out and back"], rows)


def front(rank, row, numbers):
    """All configurations of a convolution that are worth it, folded."""
    place, found = figures.front_of(rank, row)
    if not found:
        return "–"
    items = "".join(
        f"<li>{numbers.planned(rank, 'kernels', place, 'desirable', number, 'time_ms', shown=ms)} in "
        f"{numbers.planned(rank, 'kernels', place, 'desirable', number, 'workspace_bytes', shown=size)}: "
        f"<code>{escape(point['configuration'])}</code></li>" for number, point in enumerate(found))
    return f"<details><summary>{len(found)}</summary><ul>{items}</ul></details>"


def convolutions_table(ranks, numbers):
    several = len(figures.processes(ranks)) > 1
    planned = any(rank.plan for rank in ranks)
    rows = []
    for rank in figures.processes(ranks):
        for place, row in enumerate(rank.stats.get("convolutions", [])):
            def cell(key, shown, rank=rank, place=place, row=row):
                return numbers.statistic(rank, "convolutions", place, key, shown=shown) if row[key] is not None else "–"

            before, after = row["undivided_ms"], row["configuration_ms"]
            gain = f"{before / after:.2f} ×" if before and after else "only divided" if after else "as called"
            if before and after and before > 1.02 * after:
                gain = f'<span class="faster">{gain}</span>'
            name = f"{escape(rank.label)} " if several else ""
            rows.append([f"{name}<code>{escape(row['problem'])}</code>", cell("undivided_ms", ms), cell("configuration_ms", ms),
                         gain, f"<code>{escape(row['configuration'] or '–')}</code>", cell("workspace_bytes", size)]
                        + ([front(rank, row, numbers)] if planned else []))
    head = ["convolution", "undivided", "as it runs", "gain", "micro-batches x images @ algorithm", "workspace"]
    return table("Each convolution, undivided and as it runs", head + (["front"] if planned else []), rows, (4, 6))


def counters(ranks, numbers):
    found = figures.processes(ranks)
    names = [name for name in found[0].stats["counters"] if any(rank.stats["counters"].get(name) for rank in found)]
    rows = [(name.replace("_", " "), lambda rank, name=name: numbers.statistic(rank, "counters", name)
             if name in rank.stats["counters"] else "–") for name in names]
    return side_by_side("What was counted, by process", found, rows)


def about(ranks):
    rank = ranks[0]
    stats = rank.stats
    processes = figures.processes(ranks)
    which = f"process {stats['process']}" if len(processes) == 1 else f"{len(processes)} processes"
    unfinished = "" if all(item.stats["finished"] for item in ranks) else ", not finished"
    device = next((item.advice["device_name"] for item in ranks if item.advice), "")
    return (f"{which} on {stats['host']}, started {stats['started']}{unfinished}"
            + (f", {device}" if device else "") + f", microdnn {stats['version']}")


def simulated(ranks):
    return any(rank.advice and rank.advice["simulated"] for rank in ranks) or any(
        "(simulated)" in row.get("key", "") for rank in ranks for row in rank.stats.get("convolutions", []))


# ---- the page ----

def make(ranks, drawn):
    """`drawn`: figures by name; each is shown where there is one."""
    numbers = Numbers(ranks)

    def draw(name):
        return figure(drawn.get(name))

    sections = [
        ("memory", "Memory", draw("memory-by-kind") + draw("memory-of-run")
         + beside(ranks, kinds(ranks, numbers), memory_table(ranks, numbers))),
        ("moves", "Moves and waits", draw("planned-moves") + draw("seen-moves") + moves(ranks, numbers)),
        ("time", "Where each millisecond went", draw("milliseconds")
         + beside(ranks, time_table(ranks, numbers), host_table(ranks, numbers))),
        ("budgets", "Other budgets", draw("budgets") + budgets_table(ranks, numbers)),
        ("convolutions", "Convolutions", draw("convolutions") + draw("fronts") + convolutions_table(ranks, numbers)),
        ("counters", "Counters", counters(ranks, numbers)),
    ]
    there = [(name, title, content) for name, title, content in sections if content.strip()]
    title = f"microdnn report: {ranks[0].stats['program']}"
    badge = '<p><span class="badge">simulated GPU: no time here was measured</span></p>' if simulated(ranks) else ""
    links = "".join(f'<li><a href="#{name}">{escape(words)}</a></li>' for name, words, _ in there)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>
<a class="skip" href="#verdict">To the verdict</a>
<header>
<h1>{escape(title)}</h1>
<p class="about">{escape(about(ranks))}</p>
{badge}
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main>
<section id="verdict" class="verdict" aria-labelledby="verdict-title"><h2 id="verdict-title">Verdict</h2>
{verdict(ranks) or "<p>No iteration was found in this run.</p>"}
{cards(ranks, numbers)}
</section>
{"".join(section(name, words, content) for name, words, content in there)}
</main>
<footer><p>Made by <code>microdnn report</code>. The files that it was made from are in this page, as JSON.</p></footer>
<script type="application/json" id="microdnn-data">{numbers.json()}</script>
</body>
</html>
"""
