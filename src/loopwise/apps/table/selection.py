"""What a table bears, by cross-validation: smoothing, strength of the prior, joint likelihood, further factors.

In: rows and a task. Out: a :class:`Fitted` model with everything that was tried. Stage: use. All folds are asked about
the same missing cells, so that choices differ by what they are, not by luck.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.table.rows import CountedRows
from loopwise.apps.table.start import CELLS, CountSmoothing, Scope, conditional_information, network, some
from loopwise.apps.table.training import PATH, Development, Network, Task, train_weights
from loopwise.budget.graft import PARTS, GraftStep, expected_gain, graft_on
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers
from loopwise.learn.history import History

Floats = NDArray[np.float64]
Say = Callable[[str], None]

FIRST, SECOND = (0.1, 0.3, 1.0, 3.0, 10.0), (0.3, 1.0, 3.0, 10.0)  # rows' worth of prior that are tried
POWERS = (1.0, 0.75, 0.55, 0.4, 0.25)  # of what columns say about each other, along which losses fall, then rise
JOINT = (0.1,)  # weights of the joint likelihood that are tried
DEEP = 3.0  # rows' worth of prior in p(v | p1) that is tried for TAN in any case
CHANCE = 2.0  # standard errors that factors of three, and what is grafted, must save
BEYOND = 2  # strengths without a better one before the path ends
ROUNDS = 8  # handfuls of factors at most
SCREENED = 1_500_000  # cells of candidates at most
GAIN_ROWS = 1500  # rows that gradients of candidates are taken of, in each fold
ONE_SPLIT = 1500  # rows from which on one split is enough
JUDGED = 5000  # development rows are enough for any choice


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
    loss: float  # of development rows, before anything was grafted


@dataclass(eq=False)
class _HeldOutFold:
    """Training rows with a network of their own, development rows with cells taken away."""

    rows: CountedRows
    dev: Development
    parents: list[Scope]
    net: Network
    weights: Floats


@dataclass(frozen=True, eq=False)
class _Route:
    """One way of training: losses of development rows, and the weights of each fold."""

    smoothing: CountSmoothing
    l2: float
    losses: Floats
    weights: list[Floats]


@dataclass(eq=False)
class StructureSearch:
    """Cross-validation over one table; a host for grafting."""

    task: Task
    rows: CountedRows
    seed: int = 0
    price: float = 1e-6
    say: Say = lambda _: None
    given: tuple[Scope, ...] | None = None  # factors instead of a network, which begin with 0
    trials: list[PriorTrial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.smoothing, self.l2, self.joint = CountSmoothing(), np.inf, 0.0
        self.added: tuple[Scope, ...] = self.given or ()
        self.trained = 0
        self.members: list[tuple[CountSmoothing, float]] = []  # of which the weights are the mean
        self.starts: list[_Route] = []  # closed-form weights that were tried
        self.losses = np.zeros(0)  # of development rows, of the best so far
        self._before: tuple[tuple[Scope, ...], list[tuple[Network, Floats]], Floats] = ((), [], self.losses)
        self.folds: list[_HeldOutFold] = []
        for number, (train, dev) in enumerate(splits(len(self.rows), self.seed)):
            rows, parents = self.rows[train], self._parents(self.rows[train])
            net = self._network(rows, parents, self.added)
            judge = Development.of(self.task, self.rows[dev], self.seed + number)
            self.folds.append(_HeldOutFold(rows, judge, parents, net, net.start))

    def _network(self, rows: CountedRows, parents: Sequence[Scope], added: Sequence[Scope]) -> Network:
        return Network.of(self.task, parents, rows, self.smoothing, added)

    def _parents(self, rows: CountedRows) -> list[Scope]:
        if self.given is not None:
            return [(place,) for place in range(len(self.task.sizes))]
        return network(rows, self.task.sizes, self.task.outputs)

    # --- Choices -----------------------------------------------------------------------------------------------------

    def choose_start(self) -> float:
        """Where training begins, how strongly it is held there, and the weight of the joint likelihood.

        Centres of the prior are naive Bayes, the independent columns (as for logistic regression), and, where it is
        better by more than chance, TAN.
        """
        trained = [route for centre in self._centres() for route in self._path(centre)]
        best = self._mixed([*self.starts, *trained])
        self.smoothing, self.l2, self.losses = best.smoothing, best.l2, best.losses
        self._restart()
        self._set_weights(best.weights)
        for joint in JOINT if self.task.outputs and np.isfinite(self.l2) else ():
            losses, kept = self._train(self.l2, joint), self._weights()
            self._note("joint likelihood", self.l2, joint, losses)
            if self._mean(losses) < self._mean(self.losses):
                self.losses, self.joint = losses, joint
            else:
                kept = best.weights
            self._set_weights(kept)
        return self._mean(self.losses)

    def _centres(self) -> list[CountSmoothing]:
        """Closed-form weights from which to train."""
        if self.given is not None:
            return [CountSmoothing()]
        star = self._smoothed(itertools.product(FIRST, (np.inf,)))
        found = [star.smoothing]
        if self.task.outputs:
            found.append(replace(star.smoothing, power=0.0))
        if any(len(scope) > 2 for fold in self.folds for scope in fold.parents):
            deep = self._smoothed(itertools.product(sorted({star.smoothing.first, DEEP}), SECOND))
            if self._saved(star.losses, deep.losses) > CHANCE * self._noise(star.losses, deep.losses):
                found.append(deep.smoothing)
            else:
                self.starts = [route for route in self.starts if np.isinf(route.smoothing.second)]
        return found

    def _smoothed(self, strengths: Iterable[tuple[float, float]]) -> _Route:
        """The best smoothing of closed-form weights: for each of ``strengths`` powers from 1 down, as long as that
        helps."""
        found = []
        for first, second in strengths:
            before = np.inf
            for power in POWERS:
                smoothing = CountSmoothing(first, second, power)
                nets = [Network.of(self.task, fold.parents, fold.rows, smoothing, self.added) for fold in self.folds]
                losses = self._losses([(net, net.start) for net in nets])
                loss = self._note(f"smoothing {first:g}, {second:g}, power {power:g}", np.inf, 0.0, losses)
                found.append(_Route(smoothing, np.inf, losses, [net.start for net in nets]))
                self.starts.append(found[-1])
                if loss > before:
                    break
                before = loss
        return self._best_of(found)

    def _path(self, smoothing: CountSmoothing) -> list[_Route]:
        """Strengths of the prior around closed-form weights, along a path with warm starts."""
        self.smoothing = smoothing
        start = self._restart()
        first = _Route(smoothing, np.inf, self._losses([(fold.net, fold.weights) for fold in self.folds]), start)
        known = any(route.smoothing == smoothing for route in self.starts)
        routes, best, since = [] if known else [first], self._mean(first.losses), 0
        for l2 in PATH:
            losses = self._train(l2, 0.0)
            loss = self._note("strength", l2, 0.0, losses)
            routes.append(_Route(smoothing, l2, losses, self._weights()))
            since = 0 if loss < best else since + 1
            best = min(loss, best)
            if since == BEYOND:
                break
        return routes

    def _mixed(self, routes: Sequence[_Route]) -> _Route:
        """The mean weights of the best way and of all with the same factors that are as good but for chance.

        Of a small table many are, and the best of them is best by luck in part.
        """
        best = self._best_of(routes)
        near = [
            route
            for route in routes
            if np.isinf(route.smoothing.second) == np.isinf(best.smoothing.second)
            and self._saved(route.losses, best.losses) <= self._noise(route.losses, best.losses)
        ]
        self.members = [(route.smoothing, route.l2) for route in near]
        weights = [np.mean(own, axis=0) for own in zip(*(route.weights for route in near), strict=True)]
        self.smoothing = best.smoothing
        self._restart()
        losses = self._losses([(fold.net, own) for fold, own in zip(self.folds, weights, strict=True)])
        self._note(f"mean of {len(near)}", best.l2, 0.0, losses)
        return replace(best, losses=losses, weights=weights)

    def _best_of(self, routes: Iterable[_Route]) -> _Route:
        """The one of least loss."""
        return min(routes, key=lambda route: self._mean(route.losses))

    def _note(self, what: str, l2: float, joint: float, losses: Floats) -> float:
        """Keeps what was tried; its loss."""
        loss = self._mean(losses)
        self.trials.append(PriorTrial(what, l2, joint, loss))
        if np.isfinite(l2):
            self.say(f"{what} {l2:g}: development loss {loss:.4f}")
        return loss

    def choose_factors(self, loss: float) -> list[GraftStep]:
        """Grafts further factors while that helps."""
        if np.isinf(self.l2):
            return []
        candidates = candidate_scopes(self.task, self.rows, [fold.net.scopes for fold in self.folds])
        handful = max(2, len(self.task.sizes) // 3)
        steps = graft_on(self, candidates, loss, price=self.price, at_once=handful, rounds=ROUNDS)
        for step in steps:
            self.say(
                f"{step.factors} factors added: development loss {step.loss:.4f}" + ("" if step.kept else ", undone")
            )
        return steps

    def finish(self, loss: float, steps: Sequence[GraftStep]) -> Fitted:
        """The chosen model on all rows."""
        parents, history, added = self._parents(self.rows), History(), self.given or ()
        weights = np.mean([own for centre in self._distinct() for own in self._trained_on_all(centre, history)], axis=0)
        net = self._network(self.rows, parents, added)
        stages: list[tuple[Scope, ...]] = [(), *(step.added for step in steps if step.kept)]
        for number, more in enumerate(stages if self.joint else stages[1:]):
            added = (*added, *more)
            wide = self._network(self.rows, parents, added)
            net, weights = wide, wide.carried(net, weights)
            weights, stage = train_weights(
                self.task, net, self.rows, weights, self.l2, self.joint, self.seed + 2000 + number
            )
            history.epochs += stage.epochs
        history.ended = "the chosen strength of the prior is reached"
        return Fitted(
            net,
            weights,
            self.l2,
            self.joint,
            self.smoothing,
            self.added,
            tuple(self.trials),
            tuple(steps),
            history,
            loss,
        )

    def _distinct(self) -> list[CountSmoothing]:
        return list(dict.fromkeys(smoothing for smoothing, _ in self.members))

    def _trained_on_all(self, centre: CountSmoothing, history: History) -> list[Floats]:
        """The weights of the strengths that were chosen for a centre, along the same path."""
        net = Network.of(self.task, self._parents(self.rows), self.rows, centre, self.given or ())
        wanted = [l2 for smoothing, l2 in self.members if smoothing == centre]
        weights, found = net.start, [net.start] if np.inf in wanted else []
        for number, l2 in enumerate(l2 for l2 in PATH if l2 >= min(wanted)):
            weights, stage = train_weights(self.task, net, self.rows, weights, l2, 0.0, self.seed + 1000 + number)
            history.epochs += stage.epochs
            if l2 in wanted:
                found.append(weights)
        return found

    # --- A host for grafting -----------------------------------------------------------------------------------------

    def gains(self, candidates: Sequence[Scope]) -> Floats:
        total = np.zeros(len(candidates))
        for number, fold in enumerate(self.folds):
            rows = fold.rows[:GAIN_ROWS]
            wide = self._network(fold.rows, fold.parents, (*self.added, *candidates))
            hidden = self.task.hidden(rows.values, np.random.default_rng(self.seed + number))
            shown, weights = np.where(hidden, FREE, rows.values), wide.carried(fold.net, fold.weights)
            shares = rows.counts[:, None] * self.task.shares(self.joint)
            chunks = np.array_split(np.arange(len(rows)), min(PARTS, len(rows)))
            sizes = np.array([rows[part].total for part in chunks])
            found = [wide.rows.loss(weights, shown[part], rows.values[part], shares[part])[1] for part in chunks]
            saved = expected_gain(np.array(found) / sizes[:, None], sizes, len(rows))
            first = len(wide.scopes) - len(candidates)
            total += [saved[wide.rows.place(first + place)].sum() for place in range(len(candidates))]
        return total / len(self.folds)

    def cost(self, scope: Scope) -> float:
        return float(len(scope) * np.prod([self.task.sizes[place] for place in scope]))

    def grow(self, added: Sequence[Scope]) -> float:
        self._before = self.added, [(fold.net, fold.weights) for fold in self.folds], self.losses
        self.added = (*self.added, *added)
        for fold in self.folds:
            net = self._network(fold.rows, fold.parents, self.added)
            fold.net, fold.weights = net, net.carried(fold.net, fold.weights)
        self.losses = self._train(self.l2, self.joint)
        return self._mean(self.losses)

    def noise(self) -> float:
        return CHANCE * self._noise(self._before[2], self.losses)

    def undo(self) -> None:
        self.added, kept, self.losses = self._before
        for fold, (net, weights) in zip(self.folds, kept, strict=True):
            fold.net, fold.weights = net, weights

    # --- Folds -------------------------------------------------------------------------------------------------------

    def _restart(self) -> list[Floats]:
        """All folds at their closed-form weights."""
        for fold in self.folds:
            fold.net = self._network(fold.rows, fold.parents, self.added)
            fold.weights = fold.net.start
        return self._weights()

    def _weights(self) -> list[Floats]:
        return [fold.weights for fold in self.folds]

    def _set_weights(self, weights: Sequence[Floats]) -> None:
        for fold, own in zip(self.folds, weights, strict=True):
            fold.weights = own

    def _train(self, l2: float, joint: float) -> Floats:
        self.trained += 1  # cells are drawn anew each time
        for fold in self.folds:
            fold.weights, _ = train_weights(
                self.task, fold.net, fold.rows, fold.weights, l2, joint, self.seed + self.trained
            )
        return self._losses([(fold.net, fold.weights) for fold in self.folds])

    def _losses(self, models: Sequence[tuple[Network, Floats]]) -> Floats:
        """Of each development row, the mean over its draws of missing cells."""
        found = [fold.dev.loss(net, weights) for fold, (net, weights) in zip(self.folds, models, strict=True)]
        return np.concatenate(found)

    @property
    def _counts(self) -> Floats:
        return np.concatenate([fold.dev.counts for fold in self.folds])

    def _mean(self, losses: Floats) -> float:
        return float(np.average(losses, weights=self._counts))

    def _saved(self, old: Floats, new: Floats) -> float:
        """How much less the new losses are."""
        return self._mean(old) - self._mean(new)

    def _noise(self, old: Floats, new: Floats) -> float:
        """The standard error of what is saved."""
        gain = old - new
        variance = np.average((gain - self._mean(gain)) ** 2, weights=self._counts)
        return float(np.sqrt(variance / max(len(gain) - 1, 1)))


def select(
    task: Task,
    rows: CountedRows,
    *,
    seed: int = 0,
    price: float = 1e-6,
    given: Sequence[Scope] | None = None,
    say: Say = lambda _: None,
) -> Fitted:
    """The model of a table that cross-validation chooses; ``given``: its factors, instead of a network and grafting."""
    choice = StructureSearch(task, rows, seed, price, say, None if given is None else tuple(given))
    loss = choice.choose_start()
    steps = choice.choose_factors(loss) if given is None else []
    return choice.finish(loss, steps)


def splits(rows: int, seed: int) -> list[tuple[Integers, Integers]]:
    """Numbers of training and development rows: several of a small table, one of a large one."""
    order = np.random.default_rng(seed).permutation(rows)
    folds = 3 if 500 <= rows < ONE_SPLIT else 4
    parts = np.array_split(order, min(folds, rows))
    if rows >= ONE_SPLIT:
        count = min(len(parts[0]), JUDGED)
        return [(order[count:], order[:count])]
    return [(np.concatenate([*parts[:place], *parts[place + 1 :]]), parts[place]) for place in range(len(parts))]


def candidate_scopes(task: Task, rows: CountedRows, parents: Sequence[Sequence[Scope]]) -> list[Scope]:
    """Pairs and triples that may be added: two inputs with an output, an input with another output, two inputs.

    Where these have too many cells together, the inputs that depend most on each other, given the output, come first.
    """
    sizes, inputs = task.sizes, task.inputs.tolist()
    taken = {frozenset(scope) for scope in set.intersection(*(set(map(frozenset, each)) for each in parents))}
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    found: list[tuple[float, Scope]] = [(np.inf, pair) for pair in pairs]
    for output in task.outputs:
        shared = conditional_information(some(rows), sizes, output)
        found += [(float(shared[i, j]), (i, j, output)) for i, j in itertools.combinations(inputs, 2)]
    kept, cells = [], 0
    for _, scope in sorted(found, key=lambda item: -item[0]):
        size = int(np.prod([sizes[place] for place in scope]))
        if frozenset(scope) not in taken and size <= CELLS and cells + size <= SCREENED:
            kept.append(scope)
            cells += size
    return kept
