r"""Table 1 of Domke 2010: grid models trained for one loss, measured by every other.

In: a :class:`ImageProtocol`. Out: cells of :class:`Results`, a row a training loss, a column a test loss; and the
trained weights in :data:`MODELS`, from which an interrupted run goes on.

The model (eq. 27) has eight weights; inference is TRW-S with edge probabilities of .5 to a tolerance of 1e-5, gradients
are by two-sided perturbation, training is by L-BFGS over a few images, then over all at once, both times with the
curvature that the few have at the start. The surrogate likelihood starts at 0 and is where the univariate and clique
likelihoods start; the univariate likelihood is where the smooth error starts.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.grid_crf import GridCRF
from loopwise.demo.workers import one_thread
from loopwise.formats import atomic_write
from loopwise.gradient.perturbation import Perturbation
from loopwise.gradient.unroll import Unroll
from loopwise.inference.base import Inference
from loopwise.inference.messages.message_passing import TRW
from loopwise.inference.messages.schedules import Sequential
from loopwise.learn.evaluate import Goal
from loopwise.learn.history import Epoch
from loopwise.loss.clique import CliqueLikelihood, SmoothCliqueError
from loopwise.loss.likelihood import SurrogateLikelihood
from loopwise.loss.metric import HammingError
from loopwise.loss.univariate import SmoothError, UnivariateLikelihood
from studies.domke.images.data import (
    BERKELEY,
    BIMODAL_NAME,
    FIELDS,
    GAUSSIAN_NAME,
    ImageCounts,
    ImageData,
    find_berkeley,
    natural,
    synthetic,
)
from studies.domke.images.names import (
    CLASSIFICATION,
    CLIQUE,
    CLIQUE_ERROR,
    ERROR,
    FEW_SWEEPS,
    MEASURES,
    SURROGATE,
    TRUNCATED,
    UNIVARIATE,
    UNROLLED,
)
from studies.harness.published import published
from studies.harness.queue import Tell, saying
from studies.harness.results import FULL, QUICK, Cell, Deadline, Results

PRINTED = published("domke")["table1"]
MODELS = "table1_models.json"
FIRST = "iterations_on_few"  # of a cell: how many L-BFGS iterations were on a few images only, before those on all
STANDING_IN = " (stand-in images)"  # of the items whose originals were not at hand
RHO, TOLERANCE, SWEEPS = 0.5, 1e-5, 1000


@dataclass(frozen=True)
class ImageProtocol:
    """How much of the table to run."""

    amounts: ImageCounts
    iterations: int  # of L-BFGS at most, for each loss
    tolerance: float  # of L-BFGS
    few: int  # images to begin with: eight weights are nearly known from them, and all images only make them exact


PROTOCOLS = {
    FULL: ImageProtocol(ImageCounts(train=100, test=100, drawn=24), iterations=60, tolerance=1e-6, few=16),
    QUICK: ImageProtocol(
        ImageCounts(train=6, test=6, crop=(64, 96), copies=8, train_copies=4, drawn=4, drawn_copies=2),
        iterations=20,
        tolerance=1e-4,
        few=3,
    ),
}


@dataclass(frozen=True)
class ImageTraining:
    """A row of the table: what is trained for, from where, and how inference is run and differentiated."""

    row: str
    goal: Goal
    start: str | None
    inference: Inference


def trainings(name: str) -> list[ImageTraining]:
    """The rows for one set of images, each after the one it starts from. The last ones are not in the paper."""
    trw = TRW(
        rho=RHO,
        tolerance=TOLERANCE,
        iterations=SWEEPS,
        schedule=Sequential(),
        gradient=Perturbation(),
        judge_messages=False,  # stops by marginals, as published
    )
    short = replace(trw, tolerance=0.0, iterations=TRUNCATED, gradient=Unroll())
    rows = [
        ImageTraining(SURROGATE, SurrogateLikelihood(), None, trw),
        ImageTraining(CLIQUE, CliqueLikelihood(), SURROGATE, trw),
        ImageTraining(UNIVARIATE, UnivariateLikelihood(), SURROGATE, trw),
        ImageTraining(ERROR, SmoothError(), UNIVARIATE, trw),
        ImageTraining(FEW_SWEEPS, UnivariateLikelihood(), SURROGATE, short),
    ]
    if name in (BERKELEY, FIELDS):
        rows.append(ImageTraining(CLIQUE_ERROR, SmoothCliqueError(), CLIQUE, trw))
    else:
        rows.append(ImageTraining(UNROLLED, UnivariateLikelihood(), SURROGATE, replace(trw, gradient=Unroll())))
    return rows


def item_name(name: str) -> str:
    """What the results call the part of the table for one set of images."""
    extra = STANDING_IN if name in (BIMODAL_NAME, GAUSSIAN_NAME, FIELDS) else ""
    return f"Table 1, {name}{extra}"


def column_name(measure: str, split: str) -> str:
    return f"{measure}, {split}"


# --- The weights found so far ----------------------------------------------------------------------------------------


class ImageModels:
    """Trained weights and what they scored, in one JSON file that is saved after every iteration.

    Drawn images are tested on, no more: weights that were trained before there were any are good for them too."""

    def __init__(self, folder: Path, protocol: ImageProtocol, seed: int) -> None:
        self.path, self.protocol = folder / MODELS, protocol
        self.identity: dict[str, Any] = {**asdict(protocol), "seed": seed}
        for tested in ("drawn", "drawn_copies"):
            del self.identity["amounts"][tested]
        self.entries: dict[str, dict[str, Any]] = {}
        self.others = False  # whether the file has weights of another protocol or seed
        if self.path.exists():
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            for tested in ("drawn", "drawn_copies"):  # a file may have them
                stored.get("identity", {}).get("amounts", {}).pop(tested, None)
            self.others = stored.get("identity") != json.loads(json.dumps(self.identity))
            if not self.others:
                self.entries = stored["models"]

    def get(self, name: str, row: str) -> dict[str, Any]:
        """The entry of a row, empty if it was not begun."""
        return self.entries.get(f"{name}/{row}", {})

    def put(self, name: str, row: str, entry: dict[str, Any]) -> None:
        self.entries[f"{name}/{row}"] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.others:
            kept = (self.path.with_suffix(f".old{number or ''}.json") for number in count())
            self.path.replace(next(path for path in kept if not path.exists()))
            self.others = False
        with atomic_write(self.path) as stream:
            json.dump({"identity": self.identity, "models": self.entries}, stream, indent=1)
            stream.write("\n")

    def measured(self, name: str, row: str) -> bool:
        """Whether a row was tested, and on all images that are tested on now."""
        wanted = self.protocol.amounts.tested(name)
        found = [values for column, values in self._samples(name, row).items() if column.endswith(", test")]
        return bool(found) and all(len(values) == wanted for values in found)

    def samples(self, name: str, row: str, measure: str, split: str) -> np.ndarray | None:
        """The measure of each image; None where it was not tested, or not on all of them."""
        found = self._samples(name, row).get(column_name(measure, split))
        return np.array(found) if found is not None and self.measured(name, row) else None

    def _samples(self, name: str, row: str) -> dict[str, list[float]]:
        samples: dict[str, list[float]] = self.get(name, row).get("samples", {})
        return samples


# --- Running ---------------------------------------------------------------------------------------------------------


def datasets(protocol: ImageProtocol, seed: int, data: Path | None) -> Iterator[tuple[str, Callable[[], ImageData]]]:
    """The sets of images by name, small ones first, each made when it is needed."""
    for name in (BIMODAL_NAME, GAUSSIAN_NAME):
        yield name, lambda name=name: synthetic(name, protocol.amounts, seed)  # type: ignore[misc]
    path = find_berkeley(data)
    yield (BERKELEY if path else FIELDS), lambda: natural(path, protocol.amounts, seed)


def count_steps(protocol: ImageProtocol, data: Path | None) -> int:
    return sum(len(trainings(name)) for name, _ in datasets(protocol, 0, data))


def run_table1(
    results: Results, protocol: ImageProtocol, data: Path | None, deadline: Deadline, tell: Tell
) -> tuple[int, int]:
    """Trains and measures what is not there yet, saving each; how many of how many rows are finished."""
    with one_thread():  # the kernels have threads of their own: two pools would fight over the cores
        return _run_rows(results, protocol, data, deadline, tell)


def _run_rows(
    results: Results, protocol: ImageProtocol, data: Path | None, deadline: Deadline, tell: Tell
) -> tuple[int, int]:
    models = ImageModels(results.folder, protocol, results.seed)
    finished = total = 0
    for name, make in datasets(protocol, results.seed, data):
        rows = trainings(name)
        total += len(rows)
        images: ImageData | None = None
        for training in rows:
            if not models.measured(name, training.row) and not deadline.passed:
                images = make() if images is None else images
                _train(models, images, training, protocol, deadline, saying(tell, finished))
                if models.get(name, training.row).get("finished"):
                    tell(f"{name}: measuring {training.row}", finished)
                    _measure(models, images, training)
            if models.measured(name, training.row):
                _put_cells(results, models, name, training)
                finished += 1
                tell(f"{name}: {training.row}", finished)
        _put_published(results, name)
    return finished, total


def _train(
    models: ImageModels,
    data: ImageData,
    training: ImageTraining,
    protocol: ImageProtocol,
    deadline: Deadline,
    say: Callable[[str], None],
) -> None:
    """First on a few images, then on all."""
    start = models.get(data.name, training.start) if training.start else {}
    if training.start and not start.get("finished"):
        return
    for few in (True, False):
        entry = models.get(data.name, training.row)
        if entry.get("begun" if few else "finished") or deadline.passed:
            continue
        noisy, clean = data.train
        if few:
            noisy, clean = noisy[: protocol.few], clean[: protocol.few]
        model = build(training.inference)
        weights = entry.get("weights") or start.get("weights")
        if weights is not None:
            set_weights(model, weights)
        course = ImageCourse(models, data.name, training.row, model, few)
        left = max(1, protocol.iterations - len(course.losses))
        model.set_params(warm_start=True, iterations=left, tolerance=protocol.tolerance, curvature=protocol.few)

        def after(epoch: Epoch, course: ImageCourse = course) -> bool:
            course.went_on(epoch.loss)
            say(str(course))
            return deadline.passed

        model.fit(noisy, clean, loss=[training.goal], callback=after, progress=False)
        stopped = deadline.passed and not model.history_.ended.startswith("converged")
        course.save(over=not stopped or len(course.losses) >= protocol.iterations)


class ImageCourse:
    """One minimisation, saved after every iteration: it goes on from the last one (the curvature that L-BFGS knew is
    lost then, no more)."""

    def __init__(self, models: ImageModels, name: str, row: str, model: GridCRF, few: bool) -> None:
        self.models, self.name, self.row, self.model, self.few = models, name, row, model, few
        self.entry, self.since = models.get(name, row), time.monotonic()
        self.losses: list[float] = list(self.entry.get(self._key, []))

    @property
    def _key(self) -> str:
        return "first_losses" if self.few else "losses"

    def __str__(self) -> str:
        images = "few images" if self.few else "all images"
        return f"{self.name}: {self.row}, {images}, iteration {len(self.losses)}, loss {self.losses[-1]:.6g}"

    def went_on(self, loss: float) -> None:
        """An iteration is over."""
        self.losses.append(loss)
        self.save(over=False)

    def save(self, over: bool) -> None:
        """Weights, losses and time; ``over``: whether all iterations were made."""
        seconds = round(self.entry.get("seconds", 0.0) + time.monotonic() - self.since, 1)
        state = {"begun": True, "finished": over and not self.few} if over or not self.few else {}
        own = {"weights": get_weights(self.model), self._key: self.losses, "seconds": seconds}
        self.models.put(self.name, self.row, {**self.entry, **own, **state})


def build(inference: Inference) -> GridCRF:
    """The model of eq. 27, all weights 0."""
    model = GridCRF(states=2, inference=inference)
    model.begin(channels=1)
    return model


def get_weights(model: GridCRF) -> dict[str, Any]:
    return {name: weight.tolist() for name, weight in model.potentials_.state_dict().items()}


def set_weights(model: GridCRF, weights: dict[str, Any]) -> None:
    model.potentials_.load_state_dict(
        {name: torch.tensor(value, dtype=torch.float64) for name, value in weights.items()}
    )


def _measure(models: ImageModels, data: ImageData, training: ImageTraining) -> None:
    """Every loss of every image, by the pixel."""
    entry = models.get(data.name, training.row)
    model = build(training.inference)
    set_weights(model, entry["weights"])
    samples: dict[str, list[float]] = {}
    for split, (noisy, clean) in (("train", data.train), ("test", data.test)):
        for measure, values in _by_image(model, noisy, clean).items():
            samples[column_name(measure, split)] = [round(value, 6) for value in values.tolist()]
    models.put(data.name, training.row, {**entry, "samples": samples})


def _by_image(model: GridCRF, noisy: Any, clean: Any) -> dict[str, Tensor]:
    goals: list[Goal] = [SurrogateLikelihood(), CliqueLikelihood(), UnivariateLikelihood(), HammingError()]
    rows = model.statistics(noisy, clean, goals)
    pixels = noisy.shape[1] * noisy.shape[2]
    return {measure: found[:, 1] / pixels for measure, found in zip(MEASURES, rows, strict=True)}


def _put_cells(results: Results, models: ImageModels, name: str, training: ImageTraining) -> None:
    entry = models.get(name, training.row)
    for measure in MEASURES:
        if name not in (BERKELEY, FIELDS) and measure != CLASSIFICATION:
            continue
        printed = PRINTED.get(name, {}).get(training.row, {}).get(measure, {})
        for split in ("train", "test"):
            values = models.samples(name, training.row, measure, split)
            assert values is not None
            # Truncated inference has no log-partition function worth the name.
            meaningless = measure == SURROGATE and training.row == FEW_SWEEPS
            error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
            more = {
                "seconds": entry["seconds"],
                "iterations": len(entry["losses"]),
                FIRST: len(entry.get("first_losses", [])),
            }
            ours = None if meaningless else float(values.mean())
            results.put(
                Cell(
                    item_name(name),
                    training.row,
                    column_name(measure, split),
                    ours,
                    None if meaningless else error,
                    len(values),
                    printed.get(split),
                    more,
                )
            )


def _put_published(results: Results, name: str) -> None:
    """Rows that only the paper has."""
    known = {training.row for training in trainings(name)}
    for row, columns in PRINTED.get(name, {}).items():
        if row not in known:
            for measure, printed in columns.items():
                for split, value in printed.items():
                    results.put(Cell(item_name(name), row, column_name(measure, split), None, None, 0, value))
