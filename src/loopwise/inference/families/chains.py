"""Many chains, such as the sentences of a text: exact inference on all of them at once, on several threads.

In: scores of tags ``[tokens, K]`` and of steps ``[1 or tokens, K, K]``. Out: marginals, log Z, best and sampled paths,
adjoints. Stage: inference; the work is done in :mod:`loopwise.graph.structured.kernels.chain`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loopwise.compiled.threads import in_threads
from loopwise.notices import ImpossibleError
from loopwise.potentials.linear import Floats, Integers, equal_parts

_MANY = 128  # chains from which on it pays to do them side by side


@dataclass(frozen=True, eq=False)
class ChainMarginals:
    """``single[t, k]``: the probability of tag k at token t. ``double``: of tags j, k at t - 1, t; or their sum.

    ``double`` is ``[tokens, K, K]``, zero at first tokens, or ``[1, K, K]``, summed over all. ``log_z`` ``[chains]``.
    """

    single: Floats
    double: Floats
    log_z: Floats


@dataclass(frozen=True, eq=False)
class Chains:
    """Chain ``c`` has tokens ``start[c]`` to ``start[c + 1] - 1``."""

    start: Integers
    threads: int = 1

    def marginals(self, unary: Floats, pair: Floats, *, each: bool = False, may_fail: bool = False) -> ChainMarginals:
        """Forward-backward. ``each``: probabilities of each step, not their sum. ``may_fail``: chains of which nothing
        is possible are no error, and have no marginals. O(K^2) a token."""
        from loopwise.graph.structured.kernels.chain import marginals

        tokens, states = unary.shape
        whole = each or len(pair) != 1
        if not whole and len(self.start) > _MANY:
            known = self._side_by_side(unary, pair)
            if known is not None:
                return known
        single, log_z = np.empty((tokens, states)), np.empty(len(self.start) - 1)
        double = np.zeros((tokens if whole else 1, states, states))
        parts = equal_parts(self.start, self.threads)
        sums = [double if whole else np.zeros_like(double) for _ in parts]

        def part(number: int) -> None:
            marginals(unary, pair, self.start, *parts[number], single, sums[number], log_z)

        in_threads(len(parts), part)
        if not whole:
            double = np.sum(sums, axis=0)
        known = ChainMarginals(single, double, log_z)
        impossible = np.flatnonzero(~np.isfinite(log_z))
        if impossible.size and not (may_fail and np.isneginf(log_z[impossible]).all()):
            raise ImpossibleError(
                f"sentence {impossible[0]} has no possible tags: log Z is {log_z[impossible[0]]}; the scores must be "
                "finite, or forbid less"
            )
        return known

    def log_partition(self, unary: Floats, pair: Floats) -> Floats:
        """log Z ``[chains]``, minus infinity where nothing is possible."""
        return self.marginals(unary, pair, may_fail=True).log_z

    def _side_by_side(self, unary: Floats, pair: Floats) -> ChainMarginals | None:
        """The same, many chains at once; None if the scores span too much for that."""
        from loopwise.inference.families.kernels.chain_lanes import LANES, WIDEST, lane_marginals, shifted

        chains = len(self.start) - 1
        moved, highest, widest = np.empty_like(unary), np.empty(chains), np.empty(chains)
        self._each(lambda first, last: shifted(unary, self.start, first, last, moved, highest, widest))
        top, least = pair.max(), np.where(np.isneginf(pair), np.inf, pair).min()
        ends = np.isneginf(pair).all(axis=-1).any()  # what nothing may follow would end the lanes beside it, too
        if ends or not widest.max(initial=0.0) + (top - least) <= WIDEST:
            return None
        potential, step = np.exp(moved, out=moved), np.exp(pair[0] - top)
        single, log_z = np.empty(unary.shape), np.empty(chains)
        blocks = -(-chains // LANES)
        bounds = np.linspace(0, blocks, min(self.threads, blocks) + 1).astype(np.int64).tolist()
        sums = [np.zeros(step.shape) for _ in bounds[1:]]
        order = self._spread

        def part(number: int) -> None:
            first, last = bounds[number], bounds[number + 1]
            lane_marginals(potential, step, self.start, order, first, last, single, sums[number], log_z)

        in_threads(len(sums), part)
        if not np.isfinite(log_z).all():
            return None  # no numbers, nothing possible, or too little left: one after another they will be told apart
        log_z += highest + top * np.maximum(np.diff(self.start) - 1, 0)
        return ChainMarginals(single, np.sum(sums, axis=0)[None], log_z)

    @cached_property
    def _spread(self) -> Integers:
        """Chains by falling length, in blocks that are dealt out so that any run of blocks has its share of tokens."""
        from loopwise.inference.families.kernels.chain_lanes import LANES

        order = np.argsort(-np.diff(self.start), kind="stable")
        blocks = [order[first : first + LANES] for first in range(0, len(order), LANES)]
        whole, rest = (blocks[:-1], blocks[-1:]) if len(order) % LANES else (blocks, [])
        dealt = [block for hand in range(self.threads) for block in whole[hand :: self.threads]]
        return np.concatenate([*dealt, *rest])

    def adjoints(
        self, marginals: ChainMarginals, unary_slope: Floats, pair_slope: Floats, *, shared: bool
    ) -> tuple[Floats, Floats]:
        """What slopes of a loss in the marginals are as slopes in the scores: covariances times slopes.

        ``marginals`` must hold each step. ``shared``: one table serves all steps, so its slopes are summed.
        """
        from loopwise.graph.structured.kernels.chain import covariances

        tokens, states = unary_slope.shape
        unary_adjoint = np.empty((tokens, states))
        parts = equal_parts(self.start, self.threads)
        if shared:
            sums = [np.zeros((1, states, states)) for _ in parts]
        else:
            sums = [np.zeros((tokens, states, states))] * len(parts)
        single, double = marginals.single, marginals.double

        def part(number: int) -> None:
            covariances(
                self.start, *parts[number], single, double, unary_slope, pair_slope, unary_adjoint, sums[number]
            )

        in_threads(len(parts), part)
        return unary_adjoint, np.sum(sums, axis=0) if shared else sums[0]

    def best(self, unary: Floats, pair: Floats) -> tuple[Integers, Floats]:
        """The most probable tags ``[tokens]`` and the scores of the paths ``[chains]`` (Viterbi)."""
        from loopwise.graph.structured.kernels.chain_paths import best_paths

        path, score = np.zeros(len(unary), dtype=np.int64), np.empty(len(self.start) - 1)
        self._each(lambda first, last: best_paths(unary, pair, self.start, first, last, path, score))
        return path, score

    def k_best(self, unary: Floats, pair: Floats, count: int) -> tuple[Integers, Floats]:
        """The ``count`` best paths ``[count, tokens]`` and their scores ``[count, chains]``, best first.

        Where a chain has fewer, the scores of the others are minus infinity.
        """
        from loopwise.graph.structured.kernels.chain_paths import k_best_paths

        path, score = np.zeros((count, len(unary)), dtype=np.int64), np.empty((count, len(self.start) - 1))
        self._each(lambda first, last: k_best_paths(unary, pair, self.start, first, last, path, score))
        return path, score

    def chain_scores(self, unary: Floats, pair: Floats, path: Integers) -> Floats:
        """The score of the tags ``path`` ``[tokens]``, chain by chain."""
        own = np.append(self.path_scores(unary, pair, path), 0.0)
        sums: Floats = np.where(np.diff(self.start) > 0, np.add.reduceat(own, self.start[:-1]), 0.0)
        return sums

    def sample(self, unary: Floats, pair: Floats, generator: np.random.Generator) -> Integers:
        """Tags drawn from the joint distribution of each chain."""
        from loopwise.graph.structured.kernels.chain_paths import sample_paths

        known = self.marginals(unary, pair, each=True)
        uniform, path = generator.random(len(unary)), np.zeros(len(unary), dtype=np.int64)
        self._each(lambda first, last: sample_paths(self.start, first, last, known.single, known.double, uniform, path))
        return path

    def path_scores(self, unary: Floats, pair: Floats, path: Integers) -> Floats:
        """The score of the tags ``path`` ``[tokens]`` at each token: its own, and of the step that leads to it."""
        token = np.arange(len(path))
        scores: Floats = unary[token, path].copy()
        follows = self.follows
        table = 0 if len(pair) == 1 else token[follows]
        scores[follows] += pair[table, path[token[follows] - 1], path[follows]]
        return scores

    @property
    def follows(self) -> NDArray[np.bool_]:
        """Which tokens are not the first of their sentence."""
        flags = np.ones(int(self.start[-1]), dtype=np.bool_)
        first = self.start[:-1]
        flags[first[first < len(flags)]] = False
        return flags

    def _each(self, work: Callable[[int, int], object]) -> None:
        parts = equal_parts(self.start, self.threads)
        in_threads(len(parts), lambda number: work(*parts[number]))
