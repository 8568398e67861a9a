"""Eisner & Stoyanov 2011, *Learning Cost-Aware, Loss-Aware Approximate Inference Policies*: its study run again.

In: a mode and a folder. Out: ``results.json``, pictures, ``page.html`` and ``index.md`` in that folder.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

from loopwise.kernels.threads import available_threads
from loopwise.plot.curves import Curve, Panel, panels
from loopwise.plot.style import save
from loopwise.reproduce.cost_aware_claims import claims
from loopwise.reproduce.cost_aware_models import Mixed, Synthetic
from loopwise.reproduce.cost_aware_runs import (
    BOTH,
    DENSE,
    FIGURE1,
    FIXED,
    STOPPING,
    STRONG,
    SWEEPS,
    UNSCALED,
    Protocol,
    jobs,
    run_job,
)
from loopwise.reproduce.cost_aware_tables import AREA, EQUAL, ITEMS, Study, averaged, cells
from loopwise.reproduce.page import Page, write_pages
from loopwise.reproduce.queue import Tell, work_off
from loopwise.reproduce.results import FULL, Deadline, Results
from loopwise.reproduce.runs import check_runs

PAPER = "cost-aware"
RUNS = "runs"
TITLE = "Eisner & Stoyanov 2011, Learning Cost-Aware, Loss-Aware Approximate Inference Policies"
PICTURES = {
    FIGURE1: ("figure1.png", "Figure 1: messages a sweep against test MSE. The paper prints MSE from .16 to .26."),
    STRONG: ("strong.png", "The same where log-potentials of the truth are standard normal: nearly all is certain."),
    SWEEPS: ("sweeps.png", "Test MSE against the limit of sweeps, in training and test."),
    STOPPING: ("stopping.png", "Mean sweeps against test MSE on examples of mixed difficulty."),
    BOTH: ("both.png", "Messages sent an example against test MSE, on a graph with twice the edges it needs."),
}
# About two hours of one core. Strengths and prices cover what earlier, longer grids did, with fewer steps between.
PUBLISHED = Protocol(
    truths=10,
    others=4,
    prices=tuple(0.02 * 10 ** (0.55 * k) for k in range(8)),
    strengths=tuple(1e-4 * 10 ** (0.32 * k) for k in range(8)),
    group_strengths=tuple(1e-4 * 10 ** (0.32 * k) for k in range(8)),
    epochs=8,
    sweeps=(1, 2, 3, 4, 6, 10),
    stopping_prices=(0.02, 0.05, 0.1, 0.2, 0.4),
    stopping_epochs=10,
    fixed=(1, 2, 3, 4, 6, 8, 12, 20),
    tolerances=(0.3, 0.1, 0.03, 0.01, 0.003),
)
SHORTENED = Protocol(
    truths=1,
    synthetic=Synthetic(train=600, test=600, burn_in=100, scale=0.5),
    strong=Synthetic(train=600, test=600, burn_in=200),
    mixed=Mixed(side=8, train=400, test=400, burn_in=300),
    prices=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    strengths=(1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2),
    group_strengths=(1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2),
    counts=(25, 100, 400),
    dense_epochs=12,
    epochs=5,
    pruned_epochs=10,
    refit=5,
    sweeps=(1, 2, 3, 5),
    limit=16,
    stopping_prices=(0.03, 0.1, 0.2),
    both_prices=(0.03, 0.1, 0.3, 1.0),
    stopping_epochs=8,
    fixed=(1, 2, 4, 8, 16),
    tolerances=(0.3, 0.1, 0.03),
)


def steps(mode: str) -> int:
    """How many runs there are in all."""
    return len(jobs(PUBLISHED if mode == FULL else SHORTENED))


def reproduce(
    folder: Path,
    mode: str,
    seed: int,
    minutes: float | None = None,
    tell: Tell = lambda what, done: None,
    protocol: Protocol | None = None,
    runs: Path | None = None,
    workers: int | None = None,
) -> tuple[Results, bool]:
    """Runs what is left of the study, at most for ``minutes``, and writes everything; whether it is complete.

    ``runs``: where data and finished runs are, by default in a subfolder.
    """
    if protocol is None:
        protocol = PUBLISHED if mode == FULL else SHORTENED
    results, deadline, runs = Results.open(folder, PAPER, mode, seed), Deadline(minutes), runs or folder / RUNS
    check_runs(runs, {"seed": seed, "protocol": asdict(protocol)}, keep=mode == FULL)
    todo, run = jobs(protocol), partial(run_job, protocol=protocol, folder=runs, seed=seed)
    done = work_off(todo, runs, run, deadline, tell, workers=workers or available_threads())
    study = Study(runs, protocol)
    for item in results.items():
        results.clear(item)
    for cell in cells(study):
        results.put(cell)
    results.claim(*claims(study))
    pictures = _draw(study, folder)
    write_pages(Page(TITLE, _introduction(mode, protocol, done, len(todo)), pictures, _units()), results)
    return results, done == len(todo)


def _draw(study: Study, folder: Path) -> dict[str, str]:
    pictures = {}
    for name, (file, caption) in PICTURES.items():
        shown = _panels(study, name)
        if any(panel.curves for panel in shown):
            save(panels(shown), folder / file)
            pictures[file] = caption
    return pictures


def _panels(study: Study, name: str) -> list[Panel]:
    labels = {
        FIGURE1: "messages a sweep",
        STRONG: "messages a sweep",
        SWEEPS: "sweeps",
        STOPPING: "mean sweeps an example",
        BOTH: "messages sent an example",
    }
    curves = []
    for curve in study.curves(name):
        means = sorted(averaged(study, name, curve), key=lambda mean: mean.cost)
        if means:
            errors = [mean.error or 0.0 for mean in means]
            x, y = [max(mean.cost, 1.0) for mean in means], [mean.loss for mean in means]
            dashed = curve in (FIXED, UNSCALED)
            curves.append(Curve(curve, x, y, errors if means[0].error is not None else None, dashed))
    dense = averaged(study, name, DENSE) if name in (FIGURE1, STRONG) else []
    if dense:
        curves.append(Curve(DENSE, [dense[0].cost], [dense[0].loss]))
    return [Panel(ITEMS[name], labels[name], "test MSE", curves, log_x=0 if name == SWEEPS else 10)]


def _introduction(mode: str, protocol: Protocol, done: int, of: int) -> list[str]:
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
        "those of the first run at full size. Times are measured within the runs and mean little if other work went on "
        "beside.",
    ]
    if mode != FULL:
        texts.append(
            "This is the quick version: one truth, few examples, prices and epochs. It shows what the study is; its "
            "numbers are those of one draw."
        )
    if done < of:
        texts.append(f"Not finished: {done} of {of} runs are done.")
    return texts


def _units() -> dict[str, str]:
    columns = "test MSE; columns: price, strength, number kept, sweeps or tolerance"
    units = dict.fromkeys(ITEMS.values(), columns)
    for name in (FIGURE1, STRONG):
        units[ITEMS[name] + EQUAL] = "test MSE at that share of the dense model's messages"
    for name in (FIGURE1, STRONG, STOPPING, BOTH):
        units[ITEMS[name] + AREA] = "MSE times powers of ten of cost; larger is better"
    return units
