"""What a table bears, by cross-validation: smoothing, strength of the prior, joint likelihood, further factors.

In: rows and a task. Out: a :class:`Fitted` model with everything that was tried. Stage: use. All folds are asked about
the same missing cells, so that choices differ by what they are, not by luck.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.table.start import CELLS, CountSmoothing, Scope, conditional_information, network
from loopwise.apps.table.training import PATH, Development, Network, Task, train_weights
from loopwise.budget.graft import PARTS, GraftStep, expected_gain, graft_on
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers
from loopwise.learn.history import History

Floats = NDArray[np.float64]
Say = Callable[[str], None]

FIRST, SECOND = (0.3, 1.0, 3.0, 10.0), (2.0, 8.0, 32.0, np.inf)  # rows' worth of prior that are tried
JOINT = (0.1,)  # weights of the joint likelihood that are tried
BEYOND = 2  # strengths without a better one before the path ends
ROUNDS = 8  # handfuls of factors at most
SCREENED = 1_500_000  # cells of candidates at most
GAIN_ROWS = 1500  # rows that gradients of candidates are taken of, in each fold
ONE_SPLIT = 1500  # rows from which on one split is enough


@dataclass(frozen=True)
class PriorTrial:
    """Something that was tried, and its loss on development rows. ``l2`` infinite: the closed-form weights."""

    what: str
    l2: float
    joint: float
    loss: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """The model that was chosen, trained on all rows, and how it was chosen."""

    net: Network
    weights: Floats
    l2: float
    joint: float
    smoothing: CountSmoothing
    added: tuple[Scope, ...]
    trials: tuple[PriorTrial, ...]
    steps: tuple[GraftStep, ...]
    history: History


@dataclass(eq=False)
class _Fold:
    """Training rows with a network of their own, development rows with cells taken away."""

    values: Integers
    dev: Development
    parents: list[Scope]
    net: Network
    weights: Floats


@dataclass(eq=False)
class StructureSearch:
    """Cross-validation over one table; a host for grafting."""

    task: Task
    values: Integers
    seed: int = 0
    price: float = 1e-6
    say: Say = lambda _: None
    given: tuple[Scope, ...] | None = None  # factors instead of a network, which begin with 0
    trials: list[PriorTrial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.smoothing, self.l2, self.joint = CountSmoothing(), np.inf, 0.0
        self.added: tuple[Scope, ...] = self.given or ()
        self.trained = 0
        self._before: tuple[tuple[Scope, ...], list[tuple[Network, Floats]]] = ((), [])
        self.folds: list[_Fold] = []
        for number, (train, dev) in enumerate(splits(len(self.values), self.seed)):
            rows, parents = self.values[train], self._parents(self.values[train])
            net = self._network(rows, parents, self.added)
            judge = Development.of(self.task, self.values[dev], self.seed + number)
            self.folds.append(_Fold(rows, judge, parents, net, net.start))

    def _network(self, rows: Integers, parents: Sequence[Scope], added: Sequence[Scope]) -> Network:
        return Network.of(self.task, parents, rows, self.smoothing, added)

    def _parents(self, rows: Integers) -> list[Scope]:
        if self.given is not None:
            return [(place,) for place in range(len(self.task.sizes))]
        return network(rows, self.task.sizes, self.task.outputs)

    # --- Choices -----------------------------------------------------------------------------------------------------

    def choose_smoothing(self) -> None:
        """Of the closed-form weights: how much of the data each level needs to be believed."""
        deep = any(len(scope) > 2 for fold in self.folds for scope in fold.parents)
        best = np.inf
        for first, second in itertools.product(FIRST, SECOND if deep else (np.inf,)):
            smoothing = CountSmoothing(first, second)
            nets = [Network.of(self.task, fold.parents, fold.values, smoothing, self.added) for fold in self.folds]
            loss = self._loss([(net, net.start) for net in nets])
            self.trials.append(PriorTrial(f"smoothing {first:g}, {second:g}", np.inf, 0.0, loss))
            if loss < best:
                best, self.smoothing = loss, smoothing
        self._restart()

    def choose_strength(self) -> float:
        """The strength of the prior, along a path with warm starts, then the weight of the joint likelihood."""
        best, kept = self._loss([(fold.net, fold.net.start) for fold in self.folds]), self._restart()
        since = 0
        for l2 in PATH:
            loss = self._train(l2, 0.0)
            self.trials.append(PriorTrial("strength", l2, 0.0, loss))
            self.say(f"strength {l2:g} of the prior: development loss {loss:.4f}")
            since = 0 if loss < best else since + 1
            if loss < best:
                best, kept, self.l2 = loss, self._weights(), l2
            if since == BEYOND:
                break
        self._set_weights(kept)
        for joint in JOINT if self.task.outputs and np.isfinite(self.l2) else ():
            loss = self._train(self.l2, joint)
            self.trials.append(PriorTrial("joint likelihood", self.l2, joint, loss))
            self.say(f"joint likelihood with weight {joint:g}: development loss {loss:.4f}")
            if loss < best:
                best, kept, self.joint = loss, self._weights(), joint
            self._set_weights(kept)
        return best

    def choose_factors(self, loss: float) -> list[GraftStep]:
        """Grafts further factors while that helps."""
        if np.isinf(self.l2):
            return []
        candidates = candidate_scopes(self.task, self.values, [fold.parents for fold in self.folds])
        handful = max(2, len(self.task.sizes) // 3)
        steps = graft_on(self, candidates, loss, price=self.price, at_once=handful, rounds=ROUNDS)
        for step in steps:
            self.say(
                f"{step.factors} factors added: development loss {step.loss:.4f}" + ("" if step.kept else ", undone")
            )
        return steps

    def finish(self, steps: Sequence[GraftStep]) -> Fitted:
        """The chosen model on all rows."""
        net_parents = self._parents(self.values)
        added: tuple[Scope, ...] = self.given or ()
        net = self._network(self.values, net_parents, added)
        weights, history = net.start, History()
        stages: list[tuple[float, float, tuple[Scope, ...]]] = [(l2, 0.0, ()) for l2 in PATH if l2 >= self.l2]
        stages += [(self.l2, self.joint, ())] if self.joint else []
        stages += [(self.l2, self.joint, step.added) for step in steps if step.kept]
        for number, (l2, joint, more) in enumerate(stages):
            if more:
                added = (*added, *more)
                wide = self._network(self.values, net_parents, added)
                net, weights = wide, wide.carried(net, weights)
            weights, stage = train_weights(self.task, net, self.values, weights, l2, joint, self.seed + 1000 + number)
            history.epochs += stage.epochs
        history.ended = "the chosen strength of the prior is reached"
        return Fitted(
            net, weights, self.l2, self.joint, self.smoothing, self.added, tuple(self.trials), tuple(steps), history
        )

    # --- A host for grafting -----------------------------------------------------------------------------------------

    def gains(self, candidates: Sequence[Scope]) -> Floats:
        total = np.zeros(len(candidates))
        for number, fold in enumerate(self.folds):
            rows = fold.values[:GAIN_ROWS]
            wide = self._network(fold.values, fold.parents, (*self.added, *candidates))
            hidden = self.task.hidden(rows, np.random.default_rng(self.seed + number))
            shown, weights = np.where(hidden, FREE, rows), wide.carried(fold.net, fold.weights)
            share, chunks = self.task.shares(self.joint), np.array_split(np.arange(len(rows)), min(PARTS, len(rows)))
            parts = [wide.rows.loss(weights, shown[part], rows[part], share)[1] / len(part) for part in chunks]
            saved = expected_gain(np.array(parts), np.array([float(len(part)) for part in chunks]), len(rows))
            first = len(wide.scopes) - len(candidates)
            total += [saved[wide.rows.place(first + place)].sum() for place in range(len(candidates))]
        return total / len(self.folds)

    def cost(self, scope: Scope) -> float:
        return float(len(scope) * np.prod([self.task.sizes[place] for place in scope]))

    def grow(self, added: Sequence[Scope]) -> float:
        self._before = self.added, [(fold.net, fold.weights) for fold in self.folds]
        self.added = (*self.added, *added)
        for fold in self.folds:
            net = self._network(fold.values, fold.parents, self.added)
            fold.net, fold.weights = net, net.carried(fold.net, fold.weights)
        return self._train(self.l2, self.joint)

    def undo(self) -> None:
        self.added, kept = self._before
        for fold, (net, weights) in zip(self.folds, kept, strict=True):
            fold.net, fold.weights = net, weights

    # --- Folds -------------------------------------------------------------------------------------------------------

    def _restart(self) -> list[Floats]:
        """All folds at their closed-form weights."""
        for fold in self.folds:
            fold.net = self._network(fold.values, fold.parents, self.added)
            fold.weights = fold.net.start
        return self._weights()

    def _weights(self) -> list[Floats]:
        return [fold.weights for fold in self.folds]

    def _set_weights(self, weights: Sequence[Floats]) -> None:
        for fold, own in zip(self.folds, weights, strict=True):
            fold.weights = own

    def _train(self, l2: float, joint: float) -> float:
        self.trained += 1  # cells are drawn anew each time
        for fold in self.folds:
            fold.weights, _ = train_weights(
                self.task, fold.net, fold.values, fold.weights, l2, joint, self.seed + self.trained
            )
        return self._loss([(fold.net, fold.weights) for fold in self.folds])

    def _loss(self, models: Sequence[tuple[Network, Floats]]) -> float:
        found = [fold.dev.loss(net, weights) for fold, (net, weights) in zip(self.folds, models, strict=True)]
        return float(np.concatenate(found).mean())


def select(
    task: Task,
    values: Integers,
    *,
    seed: int = 0,
    price: float = 1e-6,
    given: Sequence[Scope] | None = None,
    say: Say = lambda _: None,
) -> Fitted:
    """The model of a table that cross-validation chooses; ``given``: its factors, instead of a network and grafting."""
    choice = StructureSearch(task, values, seed, price, say, None if given is None else tuple(given))
    choice.choose_smoothing()
    loss = choice.choose_strength()
    steps = choice.choose_factors(loss) if given is None else []
    return choice.finish(steps)


def splits(rows: int, seed: int) -> list[tuple[Integers, Integers]]:
    """Numbers of training and development rows: several of a small table, one of a large one."""
    order = np.random.default_rng(seed).permutation(rows)
    folds = 3 if 500 <= rows < ONE_SPLIT else 4
    parts = np.array_split(order, min(folds, rows))
    pairs = [(np.concatenate([*parts[:place], *parts[place + 1 :]]), parts[place]) for place in range(len(parts))]
    return pairs if rows < ONE_SPLIT else pairs[:1]


def candidate_scopes(task: Task, values: Integers, parents: Sequence[Sequence[Scope]]) -> list[Scope]:
    """Pairs and triples that may be added: two inputs with an output, an input with another output, two inputs.

    Where these have too many cells together, the inputs that depend most on each other, given the output, come first.
    """
    sizes, inputs = task.sizes, task.inputs.tolist()
    taken = {frozenset(scope) for scope in set.intersection(*(set(map(frozenset, each)) for each in parents))}
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    found: list[tuple[float, Scope]] = [(np.inf, pair) for pair in pairs]
    for output in task.outputs:
        shared = conditional_information(values[:20_000], sizes, output)
        found += [(float(shared[i, j]), (i, j, output)) for i, j in itertools.combinations(inputs, 2)]
    kept, cells = [], 0
    for _, scope in sorted(found, key=lambda item: -item[0]):
        size = int(np.prod([sizes[place] for place in scope]))
        if frozenset(scope) not in taken and size <= CELLS and cells + size <= SCREENED:
            kept.append(scope)
            cells += size
    return kept
