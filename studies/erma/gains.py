"""Gains of SMD and SGD, tuned on models that the study does not use.

    python -m studies.erma.gains [--quick]

In: a grid. Out: for each goal the options with the least loss on fresh examples of extra models, which go to
:data:`~studies.erma.protocol.GAINS`. The extra models have other sizes and other seeds than the study's;
likelihood training is tuned for its own measure.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from loopwise.compiled.threads import available_threads
from loopwise.demo.workers import one_thread
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.evaluate import evaluate
from loopwise.learn.start import SCALE
from loopwise.learn.sweep import sweep
from loopwise.learn.system import System
from loopwise.learn.training import TrainingError
from loopwise.potentials.tables import TablePotentials
from studies.erma.models import SampleSizes, Size, draw_model
from studies.erma.protocol import GAINS, IDEAL, LOGL_TEST, MSE_TEST, TESTS, Gains
from studies.erma.training import inference, minimise

EXTRA = (Size(60, 160), Size(120, 480))  # none of the study
EXTRA_SEED = 1011
WARM_UP = 3


@dataclass(frozen=True)
class GainGrid:
    """First gains, meta steps relative to them and memories to try."""

    gains: tuple[float, ...]
    metas: tuple[float, ...]
    memories: tuple[float, ...] = (0.5, 0.9)

    def __iter__(self) -> Iterator[Gains]:
        return (Gains(*options) for options in product(self.gains, self.metas, self.memories))


# The product of trace and gradient, which a meta step multiplies, is of the order of the gain times the squared slope:
# 1e-2 for the likelihood, 1e-5 for the losses.
LIKELIHOOD = GainGrid((0.03, 0.1, 0.3), (0.3, 3.0, 10.0))
SMOOTH = GainGrid((3.0, 10.0, 30.0), (100.0, 1000.0))  # of the MSE; from a meta step of 3000 on, gains run away
STEEP = GainGrid((0.01, 0.03, 0.1), (0.0, 300.0))  # of F and L1, after the MSE
DESCENT = GainGrid((1.0, 3.0, 10.0, 30.0), (0.0,), (0.0,))
GRIDS = {"LOGL": LIKELIHOOD, "MSE": SMOOTH, "F": STEEP, "L1": STEEP, "SGD": DESCENT}


def held_out(
    target: str, gains: Gains, size: Size, sampling: SampleSizes, epochs: int, batch: int = 32, descent: bool = False
) -> float:
    """The test loss after ``epochs``, the first few of them of likelihood, as in staged training; of F and L1 a half of
    the rest is of the MSE, as in hybrid training."""
    test = TESTS[target]
    model = draw_model(size, EXTRA_SEED, sampling, threads=1)
    with one_thread(), ignored_convergence():
        system = System(TablePotentials(model.graph), inference(IDEAL), test.decoder())
        likely = test is LOGL_TEST
        if not likely:
            first = System(system.potentials, system.inference)
            nll = LOGL_TEST.goal()
            minimise(first, model.train, nll, GAINS["LOGL"], epochs=WARM_UP, batch=batch, start=SCALE)
        try:
            start = SCALE if likely else None
            left = epochs if likely else epochs - WARM_UP
            if test not in (LOGL_TEST, MSE_TEST):
                minimise(first, model.train, MSE_TEST.goal(), GAINS["MSE"], epochs=left // 2, batch=batch)
                left -= left // 2
            minimise(system, model.train, test.goal(), gains, epochs=left, batch=batch, start=start, descent=descent)
        except TrainingError:
            return math.inf
        system.refresh(model.train)
        return evaluate(system, model.test, test.goal())


def tune(
    target: str, grid: GainGrid, sizes: tuple[Size, ...], sampling: SampleSizes, epochs: int, descent: bool = False
) -> list[tuple[float, Gains]]:
    """Mean test losses over the extra models, each above the model's best; the best options first."""
    choices = [replace(gains, clip=GAINS[target].clip) for gains in grid]
    configurations = [
        {"target": target, "gains": gains, "size": size, "sampling": sampling, "epochs": epochs, "descent": descent}
        for size in sizes
        for gains in choices
    ]
    losses = sweep(held_out, configurations, jobs=available_threads())
    rows = [losses[start : start + len(choices)] for start in range(0, len(losses), len(choices))]
    means = [sum(row[place] - min(row) for row in rows) / len(rows) for place in range(len(choices))]
    return sorted(zip(means, choices, strict=True), key=lambda pair: pair[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small model, few examples and epochs")
    parser.add_argument("--target", choices=[*TESTS, "SGD"], action="append", help="default: all")
    options = parser.parse_args()
    sizes = (Size(30, 80),) if options.quick else EXTRA
    sampling = SampleSizes(128, 128, 200) if options.quick else SampleSizes()
    epochs = 5 if options.quick else 25
    for target in options.target or GRIDS:
        descent = target == "SGD"
        for excess, gains in tune("MSE" if descent else target, GRIDS[target], sizes, sampling, epochs, descent)[:5]:
            print(f"{target:5s} {gains}  test loss above the best: {excess:.6f}", flush=True)


if __name__ == "__main__":
    main()
