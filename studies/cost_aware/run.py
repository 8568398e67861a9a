"""Eisner & Stoyanov 2011, *Learning Cost-Aware, Loss-Aware Approximate Inference Policies*: its study run again.

In: an order. Out: results, pictures; runs beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from loopwise.plot.curves import Curve, Panel, panels
from loopwise.plot.style import save
from studies.cost_aware.claims import CHANGED, about, claims
from studies.cost_aware.protocol import (
    BOTH,
    DENSE,
    EVERYTHING,
    FIGURE1,
    FIXED,
    GATES,
    PROTOCOLS,
    RESIDUAL,
    STOPPING,
    STRONG,
    SWEEPS,
    UNSCALED,
    jobs,
)
from studies.cost_aware.tables import AREA, EQUAL, ITEMS, PER_MESSAGE, CostAwareRuns, averaged, cells, items_of
from studies.cost_aware.training import run_job
from studies.harness.page import Page
from studies.harness.queue import run_jobs
from studies.harness.results import FULL, Claim, Deadline, Results
from studies.harness.runs import check_runs
from studies.harness.study import Study, StudyOrder, unfinished

QUESTION = (
    "If every message costs time, which are worth sending? Accuracy and run time are put into one objective, "
    "and a system learns what to leave out and when to stop."
)

PICTURES = {
    FIGURE1: ("figure1.png", "Figure 1: messages a sweep against test MSE. The paper prints MSE from .16 to .26."),
    STRONG: ("strong.png", "The same where log-potentials of the truth are standard normal: nearly all is certain."),
    SWEEPS: ("sweeps.png", "Test MSE against the limit of sweeps, in training and test."),
    STOPPING: ("stopping.png", "Mean sweeps against test MSE on examples of mixed difficulty."),
    BOTH: ("both.png", "Messages sent an example against test MSE, on a graph with twice the edges it needs."),
    GATES: ("gates.png", "The same where examples show different parts of a grid: four kinds of choices, and all."),
}


PARTS = {"figure 1": FIGURE1, **{f"item {name}": name for name in EVERYTHING[1:]}}


def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """All curves of all truths, or those of some studies: numbers and claims of the others are left as they are."""
    protocol, runs = PROTOCOLS[order.mode], order.runs_folder
    check_runs(runs, {"seed": order.seed, "protocol": asdict(protocol)}, keep=order.keep)
    studies = _studies(order)
    todo, one = jobs(protocol, studies), partial(run_job, protocol=protocol, folder=runs, seed=order.seed)
    done = run_jobs(todo, runs, one, deadline, order.tell, workers=order.processes)
    found = CostAwareRuns(runs, protocol)
    items = [name for study in studies for name in items_of(study)]
    results.put_items(items, (cell for cell in cells(found) if cell.item in items))
    results.claim(*(claim for claim in claims(found) if about(claim.id) in studies))
    _arrange(results)
    _draw(found, results.folder, studies)
    results.note(*unfinished(done, len(todo)))
    return done, len(todo)


def judge(results: Results) -> None:
    """Gives the claims that are decided their rules, which repeat what decided them; the others wait for their runs."""
    decided = {claim.id: claim for claim in results.claims if claim.holds is not None}
    known = _undecided(results)
    results.claim(*(replace(decided.get(claim.id, claim), text=claim.text, rule=claim.rule) for claim in known))
    _arrange(results)


def _arrange(results: Results) -> None:
    """The order of a run of everything, whichever was run last."""
    items = sorted(
        (name for study in EVERYTHING for name in items_of(study)), key=lambda name: _KINDS.index(_kind(name))
    )
    results.arrange(items.index, [claim.id for claim in _undecided(results)].index)


_KINDS = ("", EQUAL, AREA, PER_MESSAGE)


def _kind(item: str) -> str:
    return next((kind for kind in _KINDS[1:] if item.endswith(kind)), "")


def _undecided(results: Results) -> list[Claim]:
    """All claims, as they are where nothing was run."""
    return claims(CostAwareRuns(results.folder / "none", PROTOCOLS[results.mode]))


def _studies(order: StudyOrder) -> list[str]:
    return [PARTS[part] for part in order.parts] or list(EVERYTHING)


def steps(order: StudyOrder) -> int:
    """How many runs there are in all."""
    return len(jobs(PROTOCOLS[order.mode], _studies(order)))


def page(results: Results) -> Page:
    """What stands around the numbers."""
    introduction = _introduction(results.mode)
    if ITEMS[GATES] in results.items():
        introduction.append(_of_gates(results.mode))
    return Page(STUDY.title, introduction, dict(PICTURES.values()), _units(), QUESTION, changed=CHANGED)


def _draw(study: CostAwareRuns, folder: Path, studies: Sequence[str]) -> None:
    for name, (file, _) in ((name, PICTURES[name]) for name in studies):
        shown = _panels(study, name)
        if any(panel.curves for panel in shown):
            save(panels(shown), folder / file)


def _panels(study: CostAwareRuns, name: str) -> list[Panel]:
    labels = {
        FIGURE1: "messages a sweep",
        STRONG: "messages a sweep",
        SWEEPS: "sweeps",
        STOPPING: "mean sweeps an example",
        BOTH: "messages sent an example",
        GATES: "messages sent an example",
    }
    curves = []
    for curve in study.curves(name):
        means = sorted(averaged(study, name, curve), key=lambda mean: mean.cost)
        if means:
            errors = [mean.error or 0.0 for mean in means]
            x, y = [max(mean.cost, 1.0) for mean in means], [mean.loss for mean in means]
            dashed = curve in (FIXED, UNSCALED, RESIDUAL)
            curves.append(Curve(curve, x, y, errors if means[0].error is not None else None, dashed))
    dense = averaged(study, name, DENSE) if name in (FIGURE1, STRONG) else []
    if dense:
        curves.append(Curve(DENSE, [dense[0].cost], [dense[0].loss]))
    return [Panel(ITEMS[name], labels[name], "test MSE", curves, log_x=0 if name == SWEEPS else 10)]


def _introduction(mode: str) -> list[str]:
    protocol = PROTOCOLS[mode]
    size, mix = protocol.synthetic, protocol.mixed
    texts = [
        f"Figure 1: {size.variables} binary variables and {size.factors} factors of {size.arity} of them, a third each "
        f"input, hidden and output; learnt by the complete graph of pairs with {protocol.iterations} sweeps of BP, MSE "
        f"of the outputs. {size.train} + {size.test} examples by Gibbs sampling; {protocol.truths} true models, "
        f"{protocol.truths if protocol.others is None else protocol.others} for what follows Figure 1. All methods "
        f"start from the same dense model, {protocol.dense_epochs} epochs of AdaGrad. Learned sparsity, L1 and group "
        f"lasso (the last two by proximal steps) then go from low prices to high ones, {protocol.epochs} epochs each, "
        "from the weights of the price before; the paper started each anew. What magnitude or chance leaves is trained "
        f"on for {protocol.pruned_epochs}. "
        "Messages count both ends of each pair that is left, clamped ones included, as published; "
        "those really sent are in results.json. The paper prints curves of one model without numbers, so its shapes "
        "are stated as claims.",
        f"The paper does not give the scale of its log-potentials. With a standard deviation of {size.scale:g} the "
        "dense MSE is about where its figure begins (.16), so that is the main study; with 1 (strong truth) most "
        "outputs are nearly certain and the MSE is far lower. Strength is measured in a unit in which the "
        'dense model\'s median factor has 4; with unit 1 as printed ("ours, unit 1") nearly all are pruned at once.',
        f"Stopping, which the paper could not show on its data: {mix.side}x{mix.side} grids seen through a channel "
        f"that flips {mix.flipped:.0%} of the pixels and erases {' or '.join(f'{share:.0%}' for share in mix.erased)}; "
        f"at most {protocol.limit} sweeps; fixed numbers of sweeps and fixed tolerances are trained for as long as "
        "the policies. Together: the same, learnt on a grid with diagonals that the truth does not have; factors are "
        "first made stronger, so that gates leave the dense model as it is. Gradients do not go through the features "
        "of policies: where beliefs hardly change, their logarithms have slopes that drown the loss's.",
        "At equal cost: a mixture of a curve's best systems with that mean cost. Areas: between a curve and the worst "
        "corner of all curves of its figure, cost in powers of ten. Where one of two curves did not reach a level on "
        "every truth, that level decides nothing; a claim about levels holds if at least half of them are decided and "
        "all of these hold. A policy that stops every example after one sweep is a fixed number of sweeps, and decides "
        "nothing either. Both rules were set after numbers had been seen, the first those of one truth, the second "
        "those of the first run at full size. Times are measured within the runs, since 2026-11-19 those of the "
        "processor, before by the clock, which means little if other work goes on beside.",
    ]
    if mode != FULL:
        texts.append(
            "This is the quick version: one truth, few examples, prices and epochs. It shows what the study is; its "
            "numbers are those of one draw."
        )
    return texts


def _of_gates(mode: str) -> str:
    protocol = PROTOCOLS[mode]
    size = protocol.patterned
    return (
        f"Gates, which the paper names as future work: {size.side}x{size.side} grids of which each example shows "
        f"{size.shown:.0%} of the pixels of one half (left, right, upper or lower), learnt on a grid with diagonals; "
        f"at most {protocol.gate_limit} sweeps. Message gates choose which message is sent in which sweep, evidence "
        "gates which factors are there for what is observed; deployed systems make nothing else, and what they sent "
        "and the time they took are measured on these. Fixed numbers of sweeps and residual BP with as many messages "
        f"are trained on for them for as long as all others ({protocol.gate_epochs} epochs); all start from one dense "
        "model. Why fewer messages are not less time here: measured time as a line in messages sent says what a call "
        "costs before any is sent, and what each then costs. Flooding makes all messages of 32 examples in step, in "
        "straight lines of code; whoever chooses pays for the choice, and factors of two binary variables are the "
        "cheapest there are."
    )


def _units() -> dict[str, str]:
    columns = "test MSE; columns: price, strength, number kept, sweeps or tolerance"
    units = dict.fromkeys(ITEMS.values(), columns)
    for name in (FIGURE1, STRONG):
        units[ITEMS[name] + EQUAL] = "test MSE at that share of the dense model's messages"
    units[ITEMS[GATES] + PER_MESSAGE] = "measured time = call + messages sent x message, over the settings of a curve"
    for name in (FIGURE1, STRONG, STOPPING, BOTH, GATES):
        units[ITEMS[name] + AREA] = "MSE times powers of ten of cost; larger is better"
    return units


STUDY = Study(
    "cost-aware",
    "Eisner & Stoyanov 2011, Learning Cost-Aware, Loss-Aware Approximate Inference Policies",
    run,
    steps,
    page,
    parts=tuple(PARTS),
    judge=judge,
)
