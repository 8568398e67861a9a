"""Training a parser from beginning to end: pruning model, trees, relations; with checkpoints.

In: training and development sentences. Out: the trained pieces of a parser. Stage: use. Every phase is one table of
weights; a checkpoint holds those that are finished and the one under way, and a run that goes on from it ends with the
same weights as one that was never stopped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from loopwise.apps.parser.arcs import BASIC, Arcs, Pruner, interleaved, learn_pruner, nearest_heads
from loopwise.apps.parser.labels import Labeller, has_relations
from loopwise.apps.parser.objectives import CLL, Objective
from loopwise.apps.parser.options import Pruning, Run, Structure, Templates
from loopwise.apps.parser.parsing import Model
from loopwise.apps.parser.table import Floats, Table, pack, unpack
from loopwise.apps.parser.tasks import Task, TreeTask
from loopwise.apps.parser.training import Progress, Settings, probe_rate, train_table
from loopwise.apps.parser.vocabulary import Corpus, Vocabulary
from loopwise.formats.files import PathLike
from loopwise.inference.message_passing import BP
from loopwise.learn.checkpoint import read_checkpoint, write_checkpoint
from loopwise.learn.history import Epoch, History
from loopwise.learn.progress import Tell

LABEL_EPOCHS = 4


@dataclass(frozen=True, eq=False)
class Pieces:
    """What training makes."""

    pruner: Pruner
    model: Model
    labeller: Labeller | None
    history: History


@dataclass
class Record:
    """What a checkpoint holds: weights of finished phases by name, and where the present one stands."""

    path: PathLike | None
    run: Mapping[str, str]
    finished: dict[str, Any] = field(default_factory=dict)
    current: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def open(path: PathLike | None, run: Mapping[str, str]) -> Record:
        """What is in the file, if there is one of the same run."""
        state = None if path is None else read_checkpoint(path, run)
        return Record(path, run) if state is None else Record(path, run, state["finished"], state["current"])

    def write(self) -> None:
        """Nothing where no file was asked for."""
        if self.path is not None:
            write_checkpoint(self.path, self.run, {"finished": self.finished, "current": self.current})


@dataclass(frozen=True, eq=False)
class Plan:
    """All that decides how a parser is trained."""

    train: Corpus
    dev: Corpus | None
    vocabulary: Vocabulary
    structure: Structure
    run: Run
    templates: Templates
    pruning: Pruning | None
    objectives: tuple[Objective, ...]
    settings: Settings
    probe: bool = False
    labels: bool = True

    @property
    def epochs(self) -> int:
        """Of all phases together."""
        models = 0 if self.pruning is None else self.pruning.folds + (self.pruning.folds > 1)
        pruning = 0 if self.pruning is None else models * self.pruning.epochs
        return pruning + len(self.objectives) * self.settings.epochs + (LABEL_EPOCHS if self.labels else 0)


def fit_pieces(plan: Plan, record: Record, tell: Tell) -> Pieces:
    """Runs all phases, or those that the record does not have yet."""
    counted = Counted(tell)
    pruner = _fit_pruner(plan, record, counted)
    tags, threads = plan.vocabulary.tags, plan.settings.threads
    arcs = _training_arcs(plan, record, counted, pruner)
    dev_arcs = None if plan.dev is None else pruner.arcs(plan.dev, plan.structure, tags, threads=threads)
    weights, history = _fit_trees(plan, record, counted, arcs, dev_arcs)
    labeller = _fit_labels(plan, record, counted)
    return Pieces(pruner, Model(weights, plan.templates, plan.structure, plan.run), labeller, history)


@dataclass
class Counted:
    """A progress bar over several phases: epochs of earlier ones are added."""

    tell: Tell
    before: float = 0.0
    note: str = ""

    def phase(self, name: str) -> Callable[[float, str], None]:
        before = self.before
        return lambda done, text: self.tell(before + done, f"{name}: {text}{self.note}")


def _fit_pruner(plan: Plan, record: Record, counted: Counted) -> Pruner:
    pruner = learn_pruner(plan.train, plan.vocabulary, plan.pruning)
    if plan.pruning is None:
        return pruner
    return replace(pruner, weights=_pruning_weights(plan, record, counted, pruner, plan.train, "pruning"))


def _training_arcs(plan: Plan, record: Record, counted: Counted, pruner: Pruner) -> Arcs:
    """Arcs of the training sentences, pruned by models that have not seen them."""
    tags, threads = plan.vocabulary.tags, plan.settings.threads
    folds = 1 if plan.pruning is None else min(plan.pruning.folds, len(plan.train))
    if folds == 1:
        return pruner.arcs(plan.train, plan.structure, tags, threads=threads)
    pieces, numbers = [], np.arange(len(plan.train))
    for fold in range(folds):
        others = plan.train.select(numbers[numbers % folds != fold])
        weights = _pruning_weights(plan, record, counted, pruner, others, f"pruning, fold {fold + 1}")
        mine = plan.train.select(numbers[numbers % folds == fold])
        pieces.append(replace(pruner, weights=weights).arcs(mine, plan.structure, tags, threads=threads))
    return interleaved(pieces)


def _pruning_weights(plan: Plan, record: Record, counted: Counted, pruner: Pruner, corpus: Corpus, name: str) -> Floats:
    """A first-order model of words and tags, trained by likelihood."""
    assert plan.pruning is not None
    structure = replace(plan.structure, factors=())
    templates = replace(BASIC, size=plan.pruning.size)
    run = Run.of(BP(iterations=1), structure)

    def make() -> Task:
        targets = nearest_heads(corpus, plan.structure)
        arcs = pruner.candidates(corpus).with_heads(corpus, targets)
        return TreeTask(corpus, arcs, targets, plan.vocabulary.tags, templates, structure, run, CLL())

    settings = replace(plan.settings, epochs=plan.pruning.epochs, rate=plan.pruning.rate, patience=None)
    return _phase(name, make, plan.pruning.size, settings, record, counted)[0]


def _fit_trees(
    plan: Plan, record: Record, counted: Counted, arcs: Arcs, dev_arcs: Arcs | None
) -> tuple[Floats, History]:
    history, weights = History(), None
    for stage, objective in enumerate(plan.objectives):
        task = _tree_task(plan, objective, arcs)
        weights, progress = _phase(
            f"trees ({objective.name})", partial(_same, task), plan.templates.size, plan.settings, record, counted,
            stage=stage, start=weights, evaluate=_measure(plan, dev_arcs, counted), probe=plan.probe,
        )  # fmt: skip
        history.epochs += [replace(epoch, number=len(history.epochs) + epoch.number) for epoch in progress.epochs]
        before = sum(epoch.stage < stage for epoch in history.epochs)
        history.best = None if progress.best is None else before + progress.best
        history.ended = progress.ended
    assert weights is not None
    return weights, history


def _same(task: TreeTask) -> Task:
    return task


def _tree_task(plan: Plan, objective: Objective, arcs: Arcs) -> TreeTask:
    targets = plan.train.heads
    if objective.possible_gold:
        targets = nearest_heads(plan.train, plan.structure)
        arcs = arcs.with_heads(plan.train, targets)
    return TreeTask(
        plan.train, arcs, targets, plan.vocabulary.tags, plan.templates, plan.structure, plan.run, objective
    )


def _measure(plan: Plan, arcs: Arcs | None, counted: Counted) -> Callable[[Floats], float] | None:
    """Unlabelled attachment score of the development data."""
    dev = plan.dev
    if dev is None or arcs is None:
        return None

    def uas(weights: Floats) -> float:
        model = Model(weights, plan.templates, plan.structure, plan.run)
        heads = model.parse(dev, arcs, plan.vocabulary.tags, plan.settings.threads).heads
        words = dev.word_columns
        share = float((heads[words] == dev.heads[words]).mean())
        counted.note = f", UAS {100 * share:.2f}"
        return share

    return uas


def _fit_labels(plan: Plan, record: Record, counted: Counted) -> Labeller | None:
    if not plan.labels or not has_relations(plan.train, plan.vocabulary):
        return None
    labeller = Labeller.learn(plan.train, plan.vocabulary, plan.templates)
    settings = replace(plan.settings, epochs=LABEL_EPOCHS, patience=None)
    weights, _ = _phase(
        "relations", lambda: labeller.task(plan.train, plan.vocabulary), labeller.templates.size, settings, record,
        counted,
    )  # fmt: skip
    return replace(labeller, weights=weights)


def _phase(
    name: str,
    make: Callable[[], Task],
    size: int,
    settings: Settings,
    record: Record,
    counted: Counted,
    *,
    stage: int = 0,
    start: Floats | None = None,
    evaluate: Callable[[Floats], float] | None = None,
    probe: bool = False,
) -> tuple[Floats, Progress]:
    """Trains one table, from the record where it has been under way; its weights ``[size]``."""
    key = f"{name} {stage}"
    tell = counted.phase(name)
    if key not in record.finished:
        task, table = make(), Table(size)
        progress, best = Progress([]), None
        if record.current.get("phase") == key:
            progress, best, settings = _resume(record.current, table, settings)
        else:
            if start is not None:
                table.set_weights(start)
            if probe:
                settings = probe_rate(task, table, settings)

        def after(now: Progress, best: Floats | None) -> None:
            if record.path is not None:
                record.current = {
                    "phase": key, "table": table.state(), "progress": _progress_json(now), "rate": settings.rate,
                    "best": None if best is None else pack(best),
                }  # fmt: skip
                record.write()

        measured = None if evaluate is None else lambda: evaluate(table.copy_weights())
        progress = train_table(
            task, table, settings, stage=stage, progress=progress, evaluate=measured, after=after, best=best, tell=tell
        )
        record.finished[key] = {"weights": pack(table.copy_weights()), "progress": _progress_json(progress)}
        record.current = {}
        record.write()
    counted.before += settings.epochs
    done = record.finished[key]
    return unpack(done["weights"], size), _progress_of(done["progress"])


def _resume(current: Mapping[str, Any], table: Table, settings: Settings) -> tuple[Progress, Floats | None, Settings]:
    table.restore(current["table"])
    best = None if current["best"] is None else unpack(current["best"], table.size)
    return _progress_of(current["progress"]), best, replace(settings, rate=current["rate"])


def _progress_json(progress: Progress) -> dict[str, Any]:
    entries = [dataclasses.asdict(epoch) for epoch in progress.epochs]
    return {"epochs": entries, "best": progress.best, "best_dev": progress.best_dev, "ended": progress.ended}


def _progress_of(json: Mapping[str, Any]) -> Progress:
    epochs = [Epoch(**entry) for entry in json["epochs"]]
    return Progress(epochs, json["best"], json["best_dev"], json["ended"])


def data_checksum(corpus: Corpus | None) -> str:
    """What tells training data apart."""
    from loopwise.learn.checkpoint import checksum

    if corpus is None:
        return "none"
    return f"{len(corpus)} sentences (checksum {checksum(corpus.tokens, np.asarray(corpus.heads), corpus.relations)})"
