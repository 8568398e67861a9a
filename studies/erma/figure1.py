r"""Figure 1 of Stoyanov et al. 2011: losses on the line through the true parameters and those that training finds.

In: runs of one model. Out: curves of the training examples' loss at :math:`(1-\alpha)\theta^*+\alpha\theta'`, with the
decoders of testing and of training; cells; a picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.demo.workers import one_thread
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.data.examples import Examples
from loopwise.learn.system import System
from loopwise.loss.likelihood import LikelihoodObjective
from loopwise.plot.landscapes import losses_along
from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, new_grid, plain, save
from loopwise.potentials.tables import TablePotentials
from studies.erma.models import ErmaModel, as_tables, load_model
from studies.erma.protocol import IDEAL, LOGL, ONE_EPOCH, TESTS, TRAINS, ErmaJob, ErmaProtocol
from studies.erma.training import finished, inference, random_start, soft_risk
from studies.harness.results import Cell
from studies.harness.runs import load_arrays, save_arrays

ITEM = "Figure 1"
PICTURE = "figure1.png"
CURVES = "figure1.npz"
HARD, SOFT = "hard", "soft"
FROM, TO = -0.5, 1.5
DIRECTIONS = {
    "a random start": "",
    "LOGL after one epoch": ONE_EPOCH.name,
    "LOGL at the end": LOGL.name,
    "MSE at the end": TRAINS["MSE"].name,
}  # title: the run that is the other end of the line; none for the start
COLOURS = {"L1": ORANGE, "MSE": BLUE, "F": GREEN, "LOGL": BLACK}

Curves = dict[str, NDArray[Any]]


def jobs(protocol: ErmaProtocol) -> list[ErmaJob]:
    """The runs that the figure needs."""
    return [ErmaJob(protocol.landscape, name, IDEAL) for name in DIRECTIONS.values() if name]


def curves(folder: Path, protocol: ErmaProtocol, seed: int) -> Curves | None:
    """The curves, from ``folder`` if they were computed before; None while a run is missing.

    By ``title|loss|decoder``, each ``[points]``, and ``alpha``.
    """
    path = folder / CURVES
    if path.exists() and len((stored := dict(load_arrays(path)))["alpha"]) == protocol.points:
        return stored
    runs = {job.train: finished(job, folder) for job in jobs(protocol)}
    if any(run is None for run in runs.values()):
        return None
    found: Curves = {"alpha": np.linspace(FROM, TO, protocol.points)}
    model = load_model(folder, protocol.landscape, seed, protocol.sampling, threads=1)
    with one_thread(), ignored_convergence(), torch.no_grad():
        for title, name in DIRECTIONS.items():
            run = runs.get(name)
            end = random_start(model, seed) if run is None else torch.from_numpy(run.tables)
            found.update(_along(model, end, title, found["alpha"]))
    save_arrays(path, found)
    return found


def _along(model: ErmaModel, end: Tensor, title: str, alphas: NDArray[Any]) -> Curves:
    found = losses_along(
        {"tables": model.tables}, [{"tables": end}], alphas,
        lambda weights: losses_at(model, weights["tables"], model.train),
    )  # fmt: skip
    return {f"{title}|{name}": values for name, values in found.items()}


def losses_at(model: ErmaModel, tables: Tensor, examples: Examples) -> Iterator[tuple[str, float]]:
    """Every loss at one point, by ``loss|decoder``; the likelihood has no decoder."""
    potentials = TablePotentials(model.graph, as_tables(tables.numpy()))
    for name, test in TESTS.items():
        goal = test.goal()
        system = System(potentials, inference(IDEAL), test.decoder())
        if isinstance(goal, LikelihoodObjective):
            yield f"{name}|{SOFT}", soft_risk(system, examples, goal)
            continue
        system.refresh(examples)
        beliefs = system.beliefs(examples)
        for kind, decoder in ((HARD, system.decoder.hard()), (SOFT, system.decoder.soft())):
            yield f"{name}|{kind}", float(goal(decoder(beliefs, examples.outputs), examples.targets))


def cells(found: Curves) -> Iterator[Cell]:
    """Of each curve where its minimum is, with the curve itself."""
    alphas = found["alpha"]
    for title in DIRECTIONS:
        for name in TESTS:
            for kind in (HARD, SOFT):
                values = found.get(f"{title}|{name}|{kind}")
                if values is not None:
                    place = int(np.argmin(values))
                    more = {
                        "unit": "alpha of the minimum",
                        "alpha": [float(alpha) for alpha in alphas],
                        "loss": [float(f"{value:.6g}") for value in values],
                    }
                    row = name if name == "LOGL" else f"{name}, {kind}"
                    yield Cell(ITEM, row, title, float(alphas[place]), None, 1, None, more)


def draw(found: Curves, path: Path) -> None:
    """Four panels; the likelihood on an axis of its own, soft decoders dashed."""
    grid = new_grid(2, 2, 10.0, 7.4)
    for panel, (axes, title) in enumerate(zip(grid.flat, DIRECTIONS, strict=True)):
        plain(axes)
        right = axes.twinx()
        lines = []
        for name, colour in COLOURS.items():
            for kind, style in ((HARD, "-"), (SOFT, "--")):
                values = found.get(f"{title}|{name}|{kind}")
                if values is not None and not (name == "MSE" and kind == SOFT):  # the same curve twice
                    side, label = (right, "likelihood (right)") if name == "LOGL" else (axes, f"{name}, {kind}")
                    lines += side.plot(found["alpha"], values, style, color=colour, linewidth=1.3, label=label)
        axes.set_title(f"towards {title}", loc="left", fontsize=10)
        axes.set_xlabel("α: 0 the true parameters, 1 those named")
        axes.set_ylabel("loss")
        right.set_ylabel("negative log-likelihood")
        right.spines[["top"]].set_visible(False)
        if panel == 0:  # the lines of all
            axes.legend(handles=lines, frameon=False, fontsize=8)
    save(grid, path)
