"""Two programs on one GPU for check-ranks, each under half of a total that holds less than both need."""
import memory_cells as cells
import memory_outside as outside
import ranks_bits as judging
from memory_cells import GIB, MIB
from memory_measured import Sampler
from ranks_place import ask_all, close_all

PROGRAM = {"net": "resnet50", "batch": 256, "mode": "tf32", "optimizer": "sgd", "program": "plain", "count": 10}
SEEDS = (0, 1)
SHARE = 0.60


def watch(place, children, seeds):
    """Trains with one seed in each, side by side. The samples begin when all contexts are there."""
    sampler = None
    try:
        for child in children:
            child.ready(place.limit(120))
        ask_all(place, children, "context")
        sampler = Sampler()
        before = sampler.used()
        sampler.start()
        answers = ask_all(place, children, "program", 120, [{"seed": seed} for seed in seeds], **program(place))
        end = sampler.used()
        samples, sampler = sampler.finish(), None
        refused = [answer["refused"]["text"] for answer in answers if "refused" in answer]
        return {"answers": answers, "before": before, "end": end, **samples, "refusals": refused,
                "memories": close_all(place, children)}
    finally:
        if sampler:
            sampler.stop.set()
        for child in children:
            child.kill()


def program(place):
    return {**PROGRAM, "batch": 2, "mode": "fp32", "size": 32} if place.options.small else PROGRAM


def growth_of(huge):
    """What a process takes beside the library's chunks, from a run that may keep all of them."""
    return outside.growth_of({**huge, "memory": huge["memories"][0]})


def problems_of(huge, both, budget):
    problems = judging.memory_problems(huge["memories"], cells.HUGE) + judging.memory_problems(both["memories"], budget)
    problems += [f"refused: {text}" for text in huge["refusals"] + both["refusals"]]
    above = both["most"] - both["before"] - len(SEEDS) * (budget + growth_of(huge))
    if above > len(SEEDS) * outside.ALLOWED_ABOVE:
        problems.append(f"{above / MIB:.0f} MiB above two budgets of {budget / GIB:.2f} GiB")
    return problems


def pair(place):
    stock, children = place.child("pair stock"), []

    def train(seed):
        stock.ready(place.limit(120))
        answer = stock.ask("program", place.limit(120), seed=seed, **program(place))
        stock.ask("end", place.limit(30))
        return answer

    try:
        alone = [train(seed) for seed in SEEDS]
        budget = int(SHARE * max(answer["peak"] for answer in alone)) or GIB
        children = [place.child(f"pair library {seed}", budget) for seed in SEEDS]  # load while the next one trains
        huge = watch(place, [place.child("pair huge", cells.HUGE)], SEEDS[:1])
        place.registry.take()
        both = watch(place, children, SEEDS)
        pinned = place.registry.take()
        problems = problems_of(huge, both, budget) + judging.pinned_problems(pinned, place.host_limit)
        if alone[0]["losses"] == alone[1]["losses"]:
            problems.append("both seeds have the same losses, so nothing would show")
        row = {"budget": budget, "peaks": [answer["peak"] for answer in alone], "growth": growth_of(huge),
               "most": both["most"], "before": both["before"], "interval_ms": both["interval_ms"], "pinned": pinned,
               "memory": both["memories"]}
        notes = [f"each alone {max(row['peaks']) / GIB:.2f} GiB, budgets {budget / GIB:.2f} GiB, together at most "
                 f"{(both['most'] - both['before'] - 2 * row['growth']) / GIB:.2f} GiB seen from outside"]
        if both["refusals"]:
            return {**row, "notes": notes, "problems": problems}
        verdict, more, wrong = judging.judge(alone, both["answers"], lambda: [train(seed) for seed in SEEDS],
                                             judging.refusals(both["memories"]), program(place)["mode"])
        return {**row, "verdict": verdict, "notes": notes + more, "problems": problems + wrong}
    finally:
        for child in (stock, *children):
            child.kill()
