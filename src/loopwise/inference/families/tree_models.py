"""Second-order models of trees, sentence by sentence, at the speed of arrays.

In: edges that may be in the tree of each sentence, pairs of them, scores of both. Out: beliefs, best trees, adjoints of
the scores. Stage: inference. The beliefs are those of :class:`~loopwise.BP` on :meth:`TreeModels.graph` with the
schedule ``Groups(("pair", "tree"), uniform_start=True)``, sweep by sweep; but sentences run from first sweep to last in
one call of a kernel, and neither graph nor tensors are made: for applications that parse or train on thousands of
sentences, each with edges of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.offsets import starts_of
from loopwise.graph.structured.edges import EdgeFactor
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree

Floats = NDArray[np.float64]
KEPT = 1 << 19  # numbers of charts kept of one sentence, 4 MiB; those of longer ones are filled again on the way back
CERTAIN = 50.0  # log-odds of beliefs beyond this count as this: exp(-50) is far below what a belief can show


class TreeRun(Protocol):
    """What inference found."""

    @property
    def possible(self) -> NDArray[np.bool_]:
        """Which sentences have a tree, ``[sentences]``; beliefs of others mean nothing."""

    @property
    def beliefs(self) -> Floats:
        """Of edges being there, ``[edges]``."""

    @property
    def moved(self) -> Floats:
        """The most that a belief moved in the last sweep, ``[sentences]``; inf where that is not known."""

    def partition(self) -> tuple[Floats, Floats]:
        """log Z of each sentence, exact or by Bethe's approximation, and the belief that both edges of each pair are
        there."""

    def pull_back(self, adjoint: Floats) -> tuple[Floats, Floats]:
        """Adjoints of the scores of edges and pairs from those of the beliefs of edges."""


@dataclass(frozen=True, eq=False)
class TreeModels:
    """Sentences that have a tree each. Edges of sentence s are ``edge_start[s]`` to ``edge_start[s + 1]``, its pairs
    ``pair_start[s]`` to ``pair_start[s + 1]``; these name edges by their number in the sentence. Heads are 0 (the root)
    to n, modifiers 1 to n.

    >>> import numpy as np
    >>> edges = np.array([[0, 1], [2, 1], [0, 2], [1, 2]])  # heads and modifiers of two tokens
    >>> models = TreeModels.of(np.array([2]), np.array([0, 4]), *edges.T, single_root=True)
    >>> models.propagate(np.array([1.0, 0, 0, 0]), np.zeros(0)).beliefs.round(4).tolist()
    [0.7311, 0.2689, 0.2689, 0.7311]
    >>> models.best(np.array([1.0, 0, 0, 0]))[0].tolist()
    [0, 1]
    """

    arrays: Any  # kernels.tree_models.Sentences

    @staticmethod
    def of(
        lengths: Integers,
        edge_start: Integers,
        heads: NDArray[Any],
        mods: NDArray[Any],
        pair_start: Integers | None = None,
        first: Integers | None = None,
        second: Integers | None = None,
        *,
        projective: bool = True,
        single_root: bool = False,
    ) -> TreeModels:
        """Of ``lengths`` tokens, with these edges and pairs (none)."""
        from loopwise.inference.families.kernels.tree_models import Crossing, Projective, Sentences

        if pair_start is None or first is None or second is None:
            pair_start, first, second = np.zeros(len(lengths) + 1, np.int64), _NO_PAIRS, _NO_PAIRS
        kind = Projective() if projective else Crossing()
        return TreeModels(Sentences(lengths, edge_start, heads, mods, pair_start, first, second, kind, single_root))

    def __len__(self) -> int:
        return len(self.arrays.lengths)

    def propagate(
        self, unary: Floats, scores: Floats, iterations: int = 1, tolerance: float = 0.0, *, taped: bool = False
    ) -> Propagated:
        """Belief propagation of each sentence; without pairs one sweep is exact.

        Parameters
        ----------
        unary, scores:
            Log-potentials of edges being there ``[edges]``, and of both edges of a pair ``[pairs]``.
        iterations, tolerance:
            At most so many sweeps, fewer if no belief moves by more than ``tolerance``.
        taped:
            Keep what :meth:`~TreeRun.pull_back` needs.
        """
        return Propagated(self, unary, scores, iterations, tolerance, taped)

    def exact(self, unary: Floats, scores: Floats) -> ExactGrandparents:
        """Exact inference (Koo & Collins 2010, Model 0); pairs must be all grandparents that can be, trees projective.
        O(edges n^2) a sentence."""
        return ExactGrandparents(self, unary, scores)

    def best(self, scores: Floats) -> tuple[Integers, NDArray[np.bool_]]:
        """The tree with the highest sum of ``scores`` of edges: the head of each token of all sentences, and which
        sentences have a tree at all."""
        from loopwise.inference.families.kernels.tree_models import best_trees

        heads, possible = np.zeros(int(self.arrays.lengths.sum()), np.int64), np.ones(len(self), np.bool_)
        best_trees(self.arrays, scores, heads, possible)
        return heads, possible

    def sums(self, values: Floats) -> Floats:
        """Values of edges added up for each sentence."""
        return _sums(values, self.arrays.edge_start)

    def pair_sums(self, values: Floats) -> Floats:
        """Values of pairs added up for each sentence."""
        return _sums(values, self.arrays.pair_start)

    def first_order(self) -> TreeModels:
        """The same sentences without pairs."""
        arrays = self.arrays
        return TreeModels(
            arrays._replace(pair_start=np.zeros(len(self) + 1, np.int64), first=_NO_PAIRS, second=_NO_PAIRS)
        )

    def per_edge(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of sentences, one for each of its edges."""
        return np.repeat(values, np.diff(self.arrays.edge_start))

    def graph(self) -> FactorGraph:
        """The same for any inference method: variables are edges; groups ``edge`` and ``pair`` of tables, ``tree`` of
        structured factors."""
        from loopwise.inference.families.kernels.tree_models import Projective

        arrays = self.arrays
        kind: type[EdgeFactor] = ProjectiveTree if isinstance(arrays.kind, Projective) else Tree
        trees, scopes = [], []
        for n, begin, end in zip(arrays.lengths.tolist(), arrays.edge_start[:-1], arrays.edge_start[1:], strict=True):
            if n:
                edges = np.stack([arrays.heads[begin:end], arrays.mods[begin:end]], 1)
                trees.append(kind(n, single_root=bool(arrays.single_root), edges=edges))
                scopes.append(np.arange(begin, end))
        shift = np.repeat(arrays.edge_start[:-1], np.diff(arrays.pair_start))
        count = len(arrays.heads)
        pairs = np.stack([arrays.first + shift, arrays.second + shift], 1).reshape(-1, 2)
        return FactorGraph(
            np.full(count, 2),
            {"edge": np.arange(count)[:, None], "pair": pairs},
            {"tree": list(zip(trees, scopes, strict=True))},
        )


class Propagated:
    """A run of belief propagation: a :class:`TreeRun`."""

    def __init__(
        self, models: TreeModels, unary: Floats, scores: Floats, iterations: int, tolerance: float, taped: bool
    ) -> None:
        from loopwise.inference.families.kernels.tree_models import AnyScores, Projective, TreeTape, run_trees

        self.arrays = arrays = models.arrays
        self.models, self.unary, self.scores, self.taped = models, unary, scores, taped
        edges, pairs, sentences = len(unary), len(scores), len(models)
        rows = iterations if taped else min(iterations, 2)
        start = _chart_start(arrays.lengths, iterations) if taped else np.zeros(sentences + 1, np.int64)
        messages = np.empty((3, rows, edges))
        self.tape = TreeTape(
            messages[0],
            messages[1],
            messages[2],
            np.empty((rows, 2, pairs)),
            np.empty((2, pairs)),
            np.empty(start[-1]),
            np.zeros((rows, sentences), np.bool_),
            start,
            np.empty(sentences, np.int64),
            np.empty(sentences),
        )
        run_trees(arrays, unary, scores, iterations, tolerance, self.tape)
        if isinstance(arrays.kind, Projective) and self.tape.in_log.any():  # beyond the range of float64
            self.arrays = arrays._replace(kind=AnyScores())
            run_trees(self.arrays, unary, scores, iterations, tolerance, self.tape)

    @property
    def used(self) -> Integers:
        """Sweeps of each sentence."""
        used: Integers = self.tape.used
        return used

    @property
    def possible(self) -> NDArray[np.bool_]:
        return np.asarray(self.tape.log_partition > -np.inf)

    @cached_property
    def log_beliefs(self) -> Floats:
        """Logarithms of :attr:`beliefs`; -inf of edges that are in no tree."""
        return self._last(self.tape.on, 1)

    @cached_property
    def beliefs(self) -> Floats:
        return np.exp(self.log_beliefs)

    @property
    def tree_scores(self) -> Floats:
        """What the tree heard of each edge last: trees of weight exp(their sum) have the beliefs for marginals."""
        return self._last(self.tape.arrived, 1)

    @property
    def log_odds(self) -> Floats:
        """Of beliefs, at most :data:`CERTAIN` nats."""
        odds: Floats = np.clip(self.log_beliefs - self._last(self.tape.off, 1), -CERTAIN, CERTAIN)
        return odds

    @property
    def moved(self) -> Floats:
        arrays, rows = self.models.arrays, len(self.tape.on)
        unseen = np.where(np.diff(arrays.pair_start) == 0, 0.0, np.inf)  # one sweep shows no movement
        if rows == 1 or not len(self.unary):
            return unseen
        change = np.append(np.abs(self.beliefs - np.exp(self._last(self.tape.on, 2))), 0.0)
        seen = np.maximum.reduceat(change, arrays.edge_start[:-1])
        return np.where(self.used > 1, seen, unseen)

    def partition(self) -> tuple[Floats, Floats]:
        from loopwise.inference.families.kernels.tree_models import bethe_values

        values, joint = np.empty(len(self.models)), np.empty(len(self.scores))
        bethe_values(self.models.arrays, self.unary, self.scores, self.tape, values, joint)
        return values, joint

    def pull_back(self, adjoint: Floats) -> tuple[Floats, Floats]:
        from loopwise.inference.families.kernels.tree_models import pull_back_trees

        assert self.taped
        of_unary, of_scores = np.zeros(len(self.unary)), np.zeros(len(self.scores))
        pull_back_trees(self.arrays, self.scores, self.tape, adjoint, of_unary, of_scores)
        return of_unary, of_scores

    def _last(self, values: Floats, back: int) -> Floats:
        """Of the last sweep of each sentence, or the one ``back`` - 1 before it."""
        rows = len(values)
        if rows == 1 or len(self.models) == 1:
            return values[max(int(self.used[0]) - back, 0) % rows if rows > 1 else 0]  # type: ignore[no-any-return]
        place = np.maximum(self.used - back, 0) % rows
        found: Floats = values[self.models.per_edge(place), np.arange(values.shape[1])]
        return found


class ExactGrandparents:
    """Exact marginals of models with grandparents: a :class:`TreeRun`."""

    def __init__(self, models: TreeModels, unary: Floats, scores: Floats) -> None:
        self.models, self.unary, self.scores = models, unary, scores
        self.log_partition, self.beliefs, self.joint = self._marginals(np.empty(0))

    @property
    def possible(self) -> NDArray[np.bool_]:
        return np.asarray(self.log_partition > -np.inf)

    @property
    def moved(self) -> Floats:
        return np.zeros(len(self.models))

    @property
    def log_odds(self) -> Floats:
        """Of beliefs, at most :data:`CERTAIN` nats."""
        with np.errstate(divide="ignore"):
            odds: Floats = np.log(self.beliefs) - np.log(np.maximum(1.0 - self.beliefs, 0.0))
        return np.clip(odds, -CERTAIN, CERTAIN)

    def partition(self) -> tuple[Floats, Floats]:
        return self.log_partition, self.joint

    def pull_back(self, adjoint: Floats) -> tuple[Floats, Floats]:
        return self._marginals(adjoint)[1:]

    def _marginals(self, adjoint: Floats) -> tuple[Floats, Floats, Floats]:
        from loopwise.inference.families.kernels.grandparents import grandparent_marginals

        total = np.empty(len(self.models))
        edges, pairs = np.zeros(len(self.unary)), np.zeros(len(self.scores))
        grandparent_marginals(self.models.arrays, self.unary, self.scores, adjoint, total, edges, pairs)
        return total, edges, pairs


class Perturbed:
    """Gradients by two-sided perturbation (Domke 2010), of beliefs that have settled: beliefs at scores moved along the
    adjoint of the beliefs."""

    def __init__(self, models: TreeModels, unary: Floats, scores: Floats, iterations: int, tolerance: float) -> None:
        self.models, self.unary, self.scores = models, unary, scores
        self.limits = iterations, tolerance

    def pull_back(self, adjoint: Floats) -> tuple[Floats, Floats]:
        """As that of :class:`TreeRun`."""
        models, start = self.models, self.models.arrays.edge_start
        largest = np.maximum.reduceat(np.append(np.abs(adjoint), 0.0), start[:-1])
        scale = 1.0 + np.maximum.reduceat(np.append(np.abs(self.unary), 0.0), start[:-1])
        step = 6e-6 * scale / np.where(largest > 0.0, largest, 1.0)  # the cube root of the rounding error
        along = models.per_edge(step) * adjoint
        up, down = (models.propagate(self.unary + sign * along, self.scores, *self.limits) for sign in (1.0, -1.0))
        of_pairs = (up.partition()[1] - down.partition()[1]) / np.repeat(2.0 * step, np.diff(models.arrays.pair_start))
        return (up.beliefs - down.beliefs) / models.per_edge(2.0 * step), of_pairs


_NO_PAIRS = np.zeros(0, np.int64)


def _sums(values: Floats, start: Integers) -> Floats:
    totals: Floats = np.add.reduceat(np.append(values, 0.0), start[:-1])
    totals[start[1:] == start[:-1]] = 0.0
    return totals


def _chart_start(lengths: Integers, iterations: int) -> Integers:
    """Where the charts of each sentence begin: those of all sweeps, or of one where these would be too many."""
    from loopwise.graph.structured.kernels.eisner_charts import MATRICES

    sizes = MATRICES * (lengths + 1) ** 2
    sizes = np.where(sizes * iterations <= KEPT, sizes * iterations, sizes)
    return starts_of(sizes)
