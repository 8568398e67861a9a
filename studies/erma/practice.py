r"""What to use: the comparison of likelihood and loss under other optimisers and other inference, with calibration.

In: a folder and a seed. Out: cells, a picture. One kind of model (50 variables, 200 edges) drawn a few times; each
training is tested on MSE, F and L1, and its beliefs for calibration. Beyond the paper, which has SMD and BP only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch

from loopwise.demo.trials import beliefs_reliability
from loopwise.demo.workers import one_thread
from loopwise.formats.files import atomic_write
from loopwise.inference.base import Inference
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP, TRW
from loopwise.learn.data.examples import Examples
from loopwise.learn.evaluate import evaluate
from loopwise.learn.fit import fit
from loopwise.learn.optim.lbfgs import LBFGS
from loopwise.learn.stages import Goals, Stage, as_stages, hybrid
from loopwise.learn.start import SCALE
from loopwise.learn.system import System
from loopwise.learn.training import TrainingError
from loopwise.loss.calibration import Reliability
from loopwise.plot.calibration import reliability as draw_reliability
from loopwise.plot.style import BLUE, GREEN, ORANGE, PURPLE, new_grid, plain, save
from loopwise.potentials.tables import TablePotentials
from studies.erma.models import ErmaModel, SampleSizes, Size, as_tables, draw_model
from studies.erma.protocol import BEST, IDEAL, LOGL, LOGL_TEST, TESTS, TRUTH, ErmaProtocol, Train
from studies.erma.training import TOLERANCE, trained, truth_inference
from studies.harness.results import FULL, QUICK, Cell
from studies.harness.statistics import mean_and_error

OPTIMISERS_ITEM, METHODS_ITEM = "What to use: optimisers", "What to use: inference"
PICTURE = "practice.png"
CAPTION = (
    "Test losses by optimiser and by inference (bars: difference to the true model), and reliability of the beliefs "
    "of ten sweeps of BP under each training."
)
LOSSES = ("MSE", "F", "L1")
CALIBRATION, SECONDS = "calibration error", "time"
COLOURS = {LOGL.name: ORANGE, BEST["MSE"].name: BLUE, BEST["F"].name: GREEN, BEST["L1"].name: PURPLE}
TRAININGS = tuple(COLOURS)


@dataclass(frozen=True)
class Practice:
    """How much is run."""

    size: Size = field(default_factory=partial(Size, 50, 200))
    sampling: SampleSizes = field(default_factory=SampleSizes)
    draws: int = 3  # models
    epochs: int = 25
    warm_up: int = 3
    batch: int = 32
    iterations: int = 60  # of L-BFGS, in each stage

    @property
    def protocol(self) -> ErmaProtocol:
        """The same, as the study itself trains."""
        return ErmaProtocol(epochs=self.epochs, warm_up=self.warm_up, restarts=1, batch=self.batch)


PRACTICES = {
    FULL: Practice(),
    QUICK: Practice(
        size=Size(20, 40), sampling=SampleSizes(train=320, test=500, burn_in=500), draws=2, epochs=12, iterations=15
    ),
}
METHODS: dict[str, Callable[[], Inference]] = {
    "BP, 100 sweeps": lambda: BP(iterations=100, tolerance=TOLERANCE, engine=Compiled(1)),
    "BP, 10 sweeps": lambda: BP(iterations=10, tolerance=TOLERANCE, engine=Compiled(1)),
    "BP, 3 sweeps": lambda: BP(iterations=3, tolerance=TOLERANCE, engine=Compiled(1)),
    "TRW, 100 sweeps": lambda: TRW(iterations=100, tolerance=TOLERANCE, engine=Compiled(1)),
    "mean field, 100 sweeps": lambda: MeanField(iterations=100, tolerance=TOLERANCE, threads=1),
}
COMMON, CUT = "BP, 100 sweeps", "BP, 10 sweeps"  # under which optimisers are compared; whose beliefs are drawn
RATE = 0.01  # of Adam
SMD, ADAM, L_BFGS = "SMD", "Adam", "L-BFGS"


@dataclass(frozen=True)
class PracticeTrial:
    """One training of one model. ``train`` may be :data:`TRUTH`."""

    draw: int
    train: str
    optimiser: str
    method: str

    @property
    def name(self) -> str:
        return f"model {self.draw + 1}: {self.train}, {self.optimiser}, {self.method}"

    def path(self, folder: Path) -> Path:
        name = "-".join(part.replace(" ", "-").replace(",", "") for part in (self.train, self.optimiser, self.method))
        return folder / f"practice-{self.draw}-{name}.json"


@dataclass(frozen=True)
class PracticeOutcome:
    """What came of it."""

    losses: dict[str, float]
    reliability: Reliability
    seconds: float

    def save(self, path: Path) -> None:
        bins = {name: getattr(self.reliability, name).tolist() for name in ("confidence", "frequency", "count")}
        stored = {"losses": self.losses, "seconds": self.seconds, "brier": self.reliability.brier, **bins}
        with atomic_write(path) as stream:
            json.dump(stored, stream)

    @staticmethod
    def load(path: Path) -> PracticeOutcome:
        stored = json.loads(path.read_text(encoding="utf-8"))
        said, was = (np.asarray(stored[name], dtype=np.float64) for name in ("confidence", "frequency"))
        found = Reliability(said, was, np.asarray(stored["count"], dtype=np.int64), stored["brier"])
        return PracticeOutcome(stored["losses"], found, stored["seconds"])


def trials(practice: Practice) -> list[PracticeTrial]:
    """All trainings, and the truth, model by model; the optimisers' share of both comparisons is run once."""
    found: list[PracticeTrial] = []
    for draw in range(practice.draws):
        found.append(PracticeTrial(draw, TRUTH, "", COMMON))
        for train in TRAININGS:
            found += [PracticeTrial(draw, train, optimiser, COMMON) for optimiser in (SMD, ADAM, L_BFGS)]
            found += [PracticeTrial(draw, train, ADAM, method) for method in METHODS]
    return list(dict.fromkeys(found))


def run_trial(trial: PracticeTrial, practice: Practice, folder: Path, seed: int) -> None:
    """Trains, tests and saves."""
    model = draw_model(practice.size, seed + trial.draw, practice.sampling, threads=1)
    with one_thread(), ignored_convergence():
        began = time.perf_counter()
        if trial.train == TRUTH:
            system = System(TablePotentials(model.graph, as_tables(model.tables.numpy())), truth_inference())
        elif trial.optimiser == SMD:
            system, _ = trained(_setting(trial.train), IDEAL, model.train, practice.protocol, seed)
        else:
            system = System(TablePotentials(model.graph), METHODS[trial.method]())
            train(system, model.train, trial, practice, seed)
        seconds = time.perf_counter() - began
        outcome = PracticeOutcome(_losses(system, model), beliefs_reliability(system, model.test), seconds)
    outcome.save(trial.path(folder))


def train(system: System, examples: Examples, trial: PracticeTrial, practice: Practice, seed: int) -> None:
    """Likelihood, or (after a few epochs of it) the loss, by Adam or L-BFGS."""
    setting = _setting(trial.train)
    whole = System(system.potentials, system.inference, setting.target.decoder())
    likelihood = Stage(LOGL_TEST.goal(), practice.warm_up)
    goal: Goals = hybrid(setting.target.goal()) if setting.hybrid else setting.target.goal()
    stages = as_stages(goal) if setting.target is LOGL_TEST else (likelihood, *as_stages(goal))
    fitted = partial(fit, whole, examples, batch=practice.batch, seed=seed, progress=False)
    with suppress(TrainingError):  # the weights are then those of the last whole epoch, and are judged as they are
        if trial.optimiser == ADAM:
            fitted(stages, optimizer=partial(torch.optim.Adam, lr=RATE), epochs=practice.epochs, start=SCALE)
            return
        minimised = partial(LBFGS, iterations=practice.iterations)
        for number, stage in enumerate(stages):  # one step of L-BFGS is a whole minimisation
            fitted(stage.goal, optimizer=minimised, epochs=1, start=None if number else SCALE)


def _setting(name: str) -> Train:
    return next(setting for setting in BEST.values() if setting.name == name)


def _losses(system: System, model: ErmaModel) -> dict[str, float]:
    losses = {}
    for test in LOSSES:
        tested = System(system.potentials, system.inference, TESTS[test].decoder())
        tested.refresh(model.train)
        losses[test] = evaluate(tested, model.test, TESTS[test].goal())
    return losses


def cells(folder: Path, practice: Practice) -> Iterator[Cell]:
    """Differences to the true model, calibration errors, and time relative to likelihood training by SMD."""
    found = {
        trial: PracticeOutcome.load(trial.path(folder)) for trial in trials(practice) if trial.path(folder).exists()
    }
    wanted = [(OPTIMISERS_ITEM, optimiser, COMMON, optimiser) for optimiser in (SMD, ADAM, L_BFGS)]
    wanted += [(METHODS_ITEM, ADAM, method, method) for method in METHODS]
    for item, optimiser, method, title in wanted:
        for train in TRAININGS:
            ran = [draw for draw in range(practice.draws) if PracticeTrial(draw, train, optimiser, method) in found]
            rows = [found[PracticeTrial(draw, train, optimiser, method)] for draw in ran]
            truths = [found.get(PracticeTrial(draw, TRUTH, "", COMMON)) for draw in ran]
            unit = [found.get(PracticeTrial(draw, LOGL.name, SMD, COMMON)) for draw in ran]
            columns: dict[str, list[float]] = {
                test: [row.losses[test] - truth.losses[test] for row, truth in zip(rows, truths, strict=True) if truth]
                for test in LOSSES
            }
            columns[CALIBRATION] = [row.reliability.error for row in rows]
            columns[SECONDS] = [row.seconds / one.seconds for row, one in zip(rows, unit, strict=True) if one]
            for column, values in columns.items():
                if values:
                    mean, error = mean_and_error(values)
                    yield Cell(item, f"{title}: {train}", column, mean, error, len(values))


def draw(folder: Path, practice: Practice, path: Path) -> None:
    """Bars of the losses for each optimiser and method, and the reliability of beliefs."""
    found = list(cells(folder, practice))
    left, middle, right = new_grid(1, 3, 12.0, 4.0)[0]
    left.get_gridspec().set_width_ratios([3, 4, 3])
    for axes, item, title in ((left, OPTIMISERS_ITEM, "optimisers"), (middle, METHODS_ITEM, "inference")):
        plain(axes)
        rows = list(dict.fromkeys(cell.row.split(": ")[0] for cell in found if cell.item == item))
        for number, (train, colour) in enumerate(COLOURS.items()):
            heights, errors = [], []
            for row in rows:
                cell = next((c for c in found if (c.item, c.row, c.column) == (item, f"{row}: {train}", "MSE")), None)
                heights.append(float("nan") if cell is None or cell.ours is None else cell.ours)
                errors.append(0.0 if cell is None else cell.stderr or 0.0)
            places = np.arange(len(rows)) + 0.2 * (number - 1.5)
            axes.bar(places, heights, 0.19, yerr=errors, color=colour, label=train, ecolor="#555555", capsize=1.5)
        axes.set_xticks(range(len(rows)), [row.replace(", ", ",\n") for row in rows], fontsize=8)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_ylabel("MSE above the true model")
    left.legend(frameon=False, fontsize=8)
    drawn = {train: PracticeTrial(0, train, ADAM, CUT).path(folder) for train in TRAININGS}
    found_there = {name: PracticeOutcome.load(at).reliability for name, at in drawn.items() if at.exists()}
    draw_reliability(found_there, colours=[COLOURS[name] for name in found_there], axes=right)
    right.set_title("beliefs of 10 sweeps", loc="left", fontsize=10)
    save(left, path)
