"""The figures of a report. Each can be told apart without colour: by hatches, dashes and words."""
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from drawing import INK, Drawing
from words import GIB, KINDS, ms, size

LOOKS = {  # colour and hatch
    "weights": ("#0072b2", ""),
    "kept": ("#e69f00", "///"),
    "temporary": ("#9bd3f5", "..."),
    "workspace": ("#009e73", "xxx"),
    "ours": ("#bbbbbb", "\\\\\\"),
    "out": ("#d55e00", "///"),
    "in": ("#0072b2", ""),
    "wait": ("#444444", "xxx"),
    "compute": ("#009e73", ""),
}
FOREWARNED = "#b00020"  # of budgets
POINTS = 500  # of a curve, at most


def _unit(most):
    return (GIB, "GiB") if most >= GIB else (1 << 20, "MiB")


def _rows(figure, count, **options):
    axes = figure.subplots(count, 1, sharex=True, squeeze=False, **options)
    return [row[0] for row in axes]


def _title(axis, rank, more=""):
    axis.set_title(", ".join(part for part in (rank.label, more) if part))


def _heights(each, few):
    return lambda narrow: (each + (0.3 if narrow else 0)) * few + 0.9


def _below(figure, legend_rows):
    """Keeps room for a legend below everything else."""
    share = (0.22 * legend_rows + 0.08) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))


def _legend(figure, names, looks, narrow):
    patches = [Patch(facecolor=looks[name][0], hatch=looks[name][1], edgecolor=INK, linewidth=0.4, label=label)
               for name, label in names]
    columns = 1 if narrow else min(2, len(patches))
    _below(figure, -(-len(patches) // columns))
    figure.legend(handles=patches, loc="lower center", ncol=columns)


def _budget_line(axis, budget, unit):
    axis.axhline(budget / unit, color=FOREWARNED, linestyle="--", linewidth=1.4)
    axis.annotate("budget", (1, budget / unit), xycoords=("axes fraction", "data"), xytext=(0, 3),
                  textcoords="offset points", ha="right", color=FOREWARNED)


def _thinned(samples, height):
    """The highest of each stretch, so that no peak is lost. A sample begins with its time."""
    if len(samples) <= POINTS:
        return samples
    begin, end = samples[0][0], samples[-1][0]
    best = {}
    for sample in samples:
        place = int((sample[0] - begin) / ((end - begin) or 1) * (POINTS - 1))
        if place not in best or height(sample) > height(best[place]):
            best[place] = sample
    return [best[place] for place in sorted(best)]


# ---- memory ----

def _stack(axis, iteration, unit):
    samples = _thinned(iteration["samples"], lambda sample: sum(sample[1:]))
    times = [sample[0] for sample in samples]
    below = [iteration["own_bytes"] / unit] * len(samples)
    axis.fill_between(times, 0, below, step="post", facecolor=LOOKS["ours"][0], hatch=LOOKS["ours"][1],
                      edgecolor=INK, linewidth=0.2)
    for place, kind in enumerate(iteration["kinds"], start=1):
        above = [low + sample[place] / unit for low, sample in zip(below, samples)]
        axis.fill_between(times, below, above, step="post", facecolor=LOOKS[kind][0], hatch=LOOKS[kind][1],
                          edgecolor=INK, linewidth=0.2)
        below = above
    return max(below)


def kinds_at_most(iteration):
    """The moment at which the most is held: bytes by kind."""
    fullest = max(iteration["samples"], key=lambda sample: sum(sample[1:]))
    held = dict(zip(iteration["kinds"], fullest[1:]))
    held["ours"] = iteration["own_bytes"]
    return held


def memory_by_kind(ranks):
    shown = [rank for rank in ranks if rank.advice and rank.advice.get("iteration")]
    if not shown:
        return None

    def draw(figure, narrow):
        for axis, rank in zip(_rows(figure, len(shown)), shown):
            iteration = rank.advice["iteration"]
            unit, name = _unit(iteration["budget_bytes"])
            most = _stack(axis, iteration, unit)
            _budget_line(axis, iteration["budget_bytes"], unit)
            axis.set(ylabel=name, xlim=(0, iteration["ms"]), ylim=(0, 1.1 * max(most, iteration["budget_bytes"] / unit)))
            _title(axis, rank)
        axis.set_xlabel("ms of an iteration")
        _legend(figure, [("ours", KINDS["ours"])] + [(kind, KINDS[kind]) for kind in iteration["kinds"]], LOOKS, narrow)

    parts = []
    for rank in shown:
        held = kinds_at_most(rank.advice["iteration"])
        words = ", ".join(f"{size(count)} of {KINDS[kind].split(': ')[-1]}" for kind, count in held.items() if count)
        parts.append(f"{rank.label + ': ' if rank.label else ''}at the fullest moment {words}")
    return Drawing("memory-by-kind", "Memory in one iteration, by kind, as planned",
                   "; ".join(parts) + ".", draw, _heights(2.6, len(shown)))


def memory_of_run(ranks):
    shown = [rank for rank in ranks if rank.trace and rank.trace.resident]
    if not shown:
        return None

    def draw(figure, narrow):
        for axis, rank in zip(_rows(figure, len(shown)), shown):
            samples = _thinned(rank.trace.resident, lambda sample: sample[1])
            unit, name = _unit(rank.memory["budget_bytes"])
            values = [value / unit for _, value in samples]
            axis.fill_between([time / 1e3 for time, _ in samples], 0, values, step="post", facecolor=LOOKS["in"][0],
                              alpha=0.35, edgecolor=LOOKS["in"][0])
            _budget_line(axis, rank.memory["budget_bytes"], unit)
            axis.set(ylabel=name, ylim=(0, 1.12 * max(values + [rank.memory["budget_bytes"] / unit])), xlim=(0, None))
            _title(axis, rank)
        axis.set_xlabel("seconds of the run")

    text = "; ".join(f"{rank.label + ': ' if rank.label else ''}{size(rank.memory['peak_resident_bytes'])} held at most, "
                     f"of a budget of {size(rank.memory['budget_bytes'])}" for rank in shown)
    return Drawing("memory-of-run", "Device memory over the run", text + ".", draw, _heights(2.0, len(shown)))


# ---- moves ----

LANES = (("compute", "operations"), ("out", "to the host"), ("in", "back"), ("wait", "host waits"))


def _planned(iteration):
    return {"compute": [(begin, end) for begin, end, _ in iteration["operations"]],
            "out": [move[1:3] for move in iteration["moves"] if move[0] == "out"],
            "in": [move[1:3] for move in iteration["moves"] if move[0] == "in"], "wait": []}


def _window(rank):
    """The last two iterations that are whole, or all of a short trace."""
    length, end = 2 * (rank.memory["round_ms"] or 0), rank.trace.end
    if not 0 < length < 0.5 * end:
        return 0, end
    begin = 0.9 * end - length
    return begin, begin + length


def _seen(rank):
    begin, end = _window(rank)
    trace = rank.trace

    def within(items):
        return [(max(item.begin, begin) - begin, min(item.end, end) - begin) for item in items
                if item.end >= begin and item.begin <= end]

    return {"compute": within(trace.operations), "out": within([move for move in trace.moves if move.out]),
            "in": within([move for move in trace.moves if not move.out]), "wait": within(trace.waits)}, end - begin


def _apart(times, least):
    """Without those that would be drawn on top of each other."""
    return list({int(time / least): time for time in sorted(times, reverse=True)}.values())


def _merged(spans, least):
    """In their order, without gaps that are too narrow to be seen."""
    merged = []
    for begin, end in sorted(spans):
        if merged and begin - merged[-1][1] < least:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def _bars(axis, place, spans, kind):
    """One path for all of them: a browser that prints makes a picture of each path with hatches."""
    if spans:
        colour, hatch = LOOKS[kind]
        corners = [[(begin, place - 0.35), (end, place - 0.35), (end, place + 0.35), (begin, place + 0.35), (begin, place - 0.35)]
                   for begin, end in spans]
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(spans)
        axis.add_patch(PathPatch(Path([corner for bar in corners for corner in bar], codes), facecolor=colour, hatch=hatch,
                                 edgecolor=INK, linewidth=0.2 if len(spans) > 60 else 0.5, alpha=0.85))


def _lanes(axis, spans, length, narrow):
    lanes = [lane for lane in LANES if spans[lane[0]]]
    for place, (kind, _) in enumerate(lanes):
        marks = _apart([begin for begin, end in spans[kind] if end == begin], (length or 1) / POINTS)
        bars = _merged([(begin, end) for begin, end in spans[kind] if end > begin], (length or 1) / (2 * POINTS))
        _bars(axis, place, bars, kind)
        axis.vlines(marks, place - 0.3, place + 0.3, color=LOOKS[kind][0], linewidth=0.5)
    axis.set(yticks=range(len(lanes)), yticklabels=[label for _, label in lanes], xlim=(0, length or 1),
             ylim=(len(lanes) - 0.5, -0.5))
    axis.xaxis.set_major_locator(MaxNLocator(5 if narrow else 10))


def _timeline(name, title, shown, spans_of, label):
    spans = [spans_of(rank) for rank in shown]

    def draw(figure, narrow):
        for axis, rank, (found, length) in zip(_rows(figure, len(shown)), shown, spans):
            _lanes(axis, found, length, narrow)
            _title(axis, rank)
        axis.set_xlabel(label)

    parts = []
    for rank, (found, length) in zip(shown, spans):
        waited = sum(end - begin for begin, end in found["wait"])
        parts.append(f"{rank.label + ': ' if rank.label else ''}{len(found['out'])} moves to the host and "
                     f"{len(found['in'])} back in {ms(length)}" + (f", the host waited {ms(waited)}" if waited else ""))
    return Drawing(name, title, "; ".join(parts) + ".", draw, _heights(1.6, len(shown)))


def planned_moves(ranks):
    shown = [rank for rank in ranks if rank.advice and rank.advice.get("iteration")]
    if not shown:
        return None
    return _timeline("planned-moves", "One iteration, as planned", shown,
                     lambda rank: (_planned(rank.advice["iteration"]), rank.advice["iteration"]["ms"]),
                     "ms of an iteration")


def seen_moves(ranks):
    shown = [rank for rank in ranks if rank.trace]
    if not shown:
        return None
    return _timeline("seen-moves", "What moved, as the host saw it", shown, _seen, "ms, late in the run")


# ---- time ----

def split_of(memory):
    """An iteration as (kind, words, ms): what it computes, and what it waits for."""
    took, alone = memory["round_ms"] or 0, memory["compute_ms"] or 0
    if not took:
        return []
    parts = [("compute", "operations on the device", min(alone, took))]
    if took > alone:
        parts.append(("wait", "moves and other waits", took - alone))
    return parts


def milliseconds(ranks):
    shown = [rank for rank in ranks if rank.memory and split_of(rank.memory)]
    if not shown:
        return None

    def draw(figure, narrow):
        axis = figure.subplots()
        for place, rank in enumerate(shown):
            left = 0
            for kind, _, part in split_of(rank.memory):
                axis.barh(place, part, left=left, height=0.6, color=LOOKS[kind][0], hatch=LOOKS[kind][1], edgecolor=INK,
                          linewidth=0.5)
                left += part
            axis.annotate(ms(left), (left, place), xytext=(4, 0), textcoords="offset points", va="center")
            bounds = (("link_bound_ms", "--"), ("predicted_ms", ":"))
            for key, dashes in bounds:
                if rank.memory[key]:
                    axis.vlines(rank.memory[key], place - 0.42, place + 0.42, color=FOREWARNED, linestyle=dashes,
                                linewidth=1.8)
        axis.set(yticks=range(len(shown)), yticklabels=[rank.label or "iteration" for rank in shown],
                 xlabel="ms of an iteration", ylim=(len(shown) - 0.5, -0.5))
        axis.margins(x=0.12)
        _legend(figure, [("compute", "operations on the device"), ("wait", "moves and other waits")], LOOKS, narrow)

    text = "; ".join(f"{rank.label + ': ' if rank.label else ''}{ms(rank.memory['round_ms'])} per iteration, "
                     f"{ms(rank.memory['compute_ms'])} of operations" for rank in shown)
    return Drawing("milliseconds", "Where the time of an iteration went",
                   text + ". Red lines: dashed the link bound, dotted what the plan expected.", draw,
                   lambda narrow: 0.5 * len(shown) + (1.7 if narrow else 1.3))


# ---- other budgets ----

def _curve(axis, rows, unit, label, style):
    points = sorted((row["budget_bytes"] / unit, row["ms"]) for row in rows)
    axis.plot([x for x, _ in points], [y for _, y in points], label=label, **style)


def _fitting(advice):
    return [row for row in advice["rows"] if row["gpu"] is None and row["verdict"] == "fits"]


def budgets_of_advice(advice, measured=None):
    rows = _fitting(advice)

    def draw(figure, narrow):
        axis = figure.subplots()
        unit, name = _unit(advice["peak_bytes"])
        _curve(axis, rows, unit, "predicted", {"color": LOOKS["out"][0], "marker": "o", "markersize": 5})
        _curve(axis, [dict(row, ms=row["bound_ms"]) for row in rows], unit, "no schedule is faster (link bound)",
               {"color": LOOKS["in"][0], "linestyle": "--"})
        if measured:
            axis.plot(measured[0] / unit, measured[1], "D", color=INK, markersize=8, label="this run, measured")
        axis.axvline(advice["floor_bytes"] / unit, color=FOREWARNED, linestyle=":", linewidth=1.4)
        axis.annotate("less: parts in host memory", (advice["floor_bytes"] / unit, 0.03), xytext=(4, 0), va="bottom",
                      textcoords="offset points", xycoords=("data", "axes fraction"), color=FOREWARNED)
        axis.set(xlabel=f"budget, {name}", ylabel="ms of an iteration", ylim=(0, None))
        axis.grid(axis="y")
        _below(figure, 3 if narrow else 1)
        figure.legend(loc="lower center", ncol=1 if narrow else 3)

    text = "; ".join(f"{size(row['budget_bytes'])}: {ms(row['ms'])}" for row in rows)
    return Drawing("budgets", "What other budgets would cost", text + ".", draw, lambda narrow: 3.2 if narrow else 3.4)


def budgets(ranks):
    for rank in ranks:
        if rank.advice and len(_fitting(rank.advice)) > 1:
            measured = (rank.memory["budget_bytes"], rank.memory["round_ms"])
            return budgets_of_advice(rank.advice, measured if measured[1] else None)
    return None


# ---- convolutions ----

BARS = 16


def gains(convolutions):
    """Those that fit undivided and are faster now, the largest gain first."""
    both = [row for row in convolutions if (row["undivided_ms"] or 0) > (row["configuration_ms"] or 0) > 0]
    return sorted(both, key=lambda row: row["configuration_ms"] - row["undivided_ms"])


def short_problem(problem):
    """`forward 128x64x56x56 * 128x64x3x3`, without what is usual."""
    return problem.split(" pad ")[0].replace("backward_", "bwd ").replace("forward", "fwd")


def convolutions(ranks):
    rows = gains([row for rank in processes(ranks) for row in rank.stats.get("convolutions", [])])[:BARS]
    if not rows:
        return None

    def draw(figure, narrow):
        axis = figure.subplots()
        for place, row in enumerate(rows):
            axis.barh(place - 0.2, row["undivided_ms"], height=0.38, color="#dddddd", edgecolor=INK, linewidth=0.5,
                      hatch="///")
            axis.barh(place + 0.2, row["configuration_ms"], height=0.38, color=LOOKS["compute"][0], edgecolor=INK,
                      linewidth=0.5)
        axis.set(yticks=range(len(rows)), yticklabels=[short_problem(row["problem"]) for row in rows], xlabel="ms",
                 ylim=(len(rows) - 0.5, -0.6))
        axis.tick_params(axis="y", labelsize=6 if narrow else 8)
        looks = {"before": ("#dddddd", "///"), "after": LOOKS["compute"]}
        _legend(figure, [("before", "undivided"), ("after", "with micro-batches")], looks, narrow)

    best = rows[0]
    text = (f"The largest gain: {short_problem(best['problem'])}, from {ms(best['undivided_ms'])} to "
            f"{ms(best['configuration_ms'])}.")
    return Drawing("convolutions", "Convolutions before and after", text, draw,
                   lambda narrow: 0.32 * len(rows) + 1.2)


PANELS = 6


def front_of(rank, row):
    """The place of the convolution in the plan, and its configurations; (None, []) without a plan."""
    for place, kernel in enumerate(rank.plan["kernels"] if rank.plan else ()):
        if kernel["problem"] == row["problem"]:
            return place, kernel["desirable"]
    return None, []


def fronts(ranks):
    rank = ranks[0]
    rows = [row for row in gains(rank.stats.get("convolutions", [])) if len(front_of(rank, row)[1]) > 1][:PANELS]
    if not rows:
        return None

    def draw(figure, narrow):
        columns = 2 if narrow else 3
        lines = -(-len(rows) // columns)
        axes = figure.subplots(lines, columns, squeeze=False).flat
        for axis, row in zip(axes, rows):
            front = front_of(rank, row)[1]
            axis.step([point["workspace_bytes"] / (1 << 20) for point in front], [point["time_ms"] for point in front],
                      where="post", color=LOOKS["in"][0], marker="o", markersize=4)
            axis.plot(row["workspace_bytes"] / (1 << 20), row["configuration_ms"], "D", color=FOREWARNED, markersize=8,
                      fillstyle="none")
            axis.set_title(short_problem(row["problem"]), fontsize=6 if narrow else 7)
            axis.set(ylim=(0, None), xlabel="MiB", ylabel="ms")
        for axis in list(axes)[: lines * columns - len(rows)]:
            axis.set_axis_off()

    return Drawing("fronts", "Time against workspace",
                   "Each dot is a configuration that no other one beats in both; the diamond is the one that ran.", draw,
                   lambda narrow: 2.1 * -(-len(rows) // (2 if narrow else 3)))


def processes(ranks):
    """One rank for each file: what is not of one device is there once."""
    return list({rank.path: rank for rank in ranks}.values())


def all_of(ranks):
    found = {}
    for make in (memory_by_kind, planned_moves, memory_of_run, seen_moves, milliseconds, budgets, convolutions, fronts):
        drawing = make(ranks)
        if drawing:
            found[drawing.name] = drawing
    return found
