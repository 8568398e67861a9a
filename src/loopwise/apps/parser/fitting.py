"""Training a parser from beginning to end: pruning model, trees, relations.

In: data, as they are or prepared. Out: the trained pieces of a parser. Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from loopwise.apps.parser.arcs import Arcs, Pruner, nearest_heads
from loopwise.apps.parser.labels import Labeller, has_relations
from loopwise.apps.parser.model import TreeModel
from loopwise.apps.parser.objectives import Objective
from loopwise.apps.parser.options import ParserStructure, Pruning, Templates, TreeInference
from loopwise.apps.parser.preparing import Counted, ParserData, PreparedSentences, epochs_of, prepare_data, run_phase
from loopwise.apps.parser.tasks import TreeTask
from loopwise.learn.files.checkpoint import checksum, identify
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.hashed import OnlineSettings
from loopwise.learn.history import History
from loopwise.learn.optim.hashed import Floats
from loopwise.learn.progress import Tell

LABEL_EPOCHS = 4


@dataclass(frozen=True, eq=False)
class Pieces:
    """What training makes."""

    pruner: Pruner
    model: TreeModel
    labeller: Labeller | None
    history: History


@dataclass(frozen=True, eq=False)
class TrainingOptions:
    """All that decides how a parser is trained. ``prepared``: the same data, pruned before. ``start``: weights."""

    data: ParserData
    structure: ParserStructure
    run: TreeInference
    templates: Templates
    pruning: Pruning | None
    objectives: tuple[Objective, ...]
    settings: OnlineSettings
    probe: bool = False
    labels: bool = True
    prepared: PreparedSentences | None = None
    start: Floats | None = None

    @property
    def epochs(self) -> int:
        """Of all phases together."""
        pruning = epochs_of(self.pruning) if self.prepared is None else 0
        return pruning + len(self.objectives) * self.settings.epochs + (LABEL_EPOCHS if self.labels else 0)

    def identity(self) -> dict[str, str]:
        """What tells a run of training from another."""
        settings = replace(self.settings, threads=1)  # which change nothing
        return {
            **self.data.identity(),
            "structure": identify(self.structure),
            "inference": identify(self.run),
            "templates": f"{identify(self.templates)}, version {self.templates.version}",
            "pruning": identify(self.pruning),
            "objectives": identify(list(self.objectives)),
            "settings": identify(settings),
            "options": identify([self.probe, self.labels]),
            "preparation": "none" if self.prepared is None else self.prepared.identity(),
            "start": "0" if self.start is None else checksum(self.start),
        }


def fit_pieces(plan: TrainingOptions, ledger: Ledger, tell: Tell) -> Pieces:
    """Runs all phases, or those that the ledger does not have yet."""
    counted = Counted(tell)
    ready = plan.prepared
    if ready is None:
        ready = prepare_data(plan.data, plan.structure, plan.pruning, plan.settings, ledger, counted)
    weights, history = _fit_trees(plan, ledger, counted, ready)
    labeller = _fit_labels(plan, ledger, counted)
    return Pieces(ready.pruner, TreeModel(weights, plan.templates, plan.structure, plan.run), labeller, history)


def _fit_trees(
    plan: TrainingOptions, ledger: Ledger, counted: Counted, ready: PreparedSentences
) -> tuple[Floats, History]:
    history, weights = History(), plan.start
    for stage, objective in enumerate(plan.objectives):
        weights, found = run_phase(
            f"trees ({objective.name}) {stage}", partial(_tree_task, plan, objective, ready.arcs),
            plan.templates.size, plan.settings, ledger, counted, start=weights,
            evaluate=_measure(plan, ready.dev_arcs, counted), probe=plan.probe,
        )  # fmt: skip
        before = len(history.epochs)
        history.epochs += [replace(epoch, number=before + epoch.number, stage=stage) for epoch in found.epochs]
        if found.best != 0 or not stage:  # else the best is still one of an earlier stage
            history.best = None if found.best is None else before + found.best
        history.ended = found.ended
    assert weights is not None
    return weights, history


def _tree_task(plan: TrainingOptions, objective: Objective, arcs: Arcs) -> TreeTask:
    train = plan.data.train
    targets = train.heads
    if objective.possible_gold:
        nearest = nearest_heads(train, plan.structure)
        arcs, targets = arcs.with_heads(train, nearest), train.only_known(nearest)
    tags = plan.data.vocabulary.tags
    return TreeTask(train, arcs, targets, tags, plan.templates, plan.structure, plan.run, objective)


def _measure(plan: TrainingOptions, arcs: Arcs | None, counted: Counted) -> Callable[[Floats], float] | None:
    """Unlabelled attachment score of the development data."""
    dev = plan.data.dev
    if dev is None or arcs is None:
        return None

    def uas(weights: Floats) -> float:
        model = TreeModel(weights, plan.templates, plan.structure, plan.run)
        heads = model.parse(dev, arcs, plan.data.vocabulary.tags, plan.settings.threads).heads
        words = dev.word_columns[dev.heads[dev.word_columns] >= 0]
        share = float((heads[words] == dev.heads[words]).mean())
        counted.note = f", UAS {100 * share:.2f}"
        return share

    return uas


def _fit_labels(plan: TrainingOptions, ledger: Ledger, counted: Counted) -> Labeller | None:
    train, vocabulary = plan.data.train, plan.data.vocabulary
    if not plan.labels or not has_relations(train, vocabulary):
        return None
    labeller = Labeller.learn(train, vocabulary, plan.templates)
    settings = replace(plan.settings, epochs=LABEL_EPOCHS, patience=None)
    weights, _ = run_phase(
        "relations", lambda: labeller.task(train, vocabulary), labeller.templates.size, settings, ledger, counted
    )
    return replace(labeller, weights=weights)
