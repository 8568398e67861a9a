"""What chains of words and chains of feature vectors share: answers from scores, with or without given tags.

In: scores of what is asked. Out: tags, the best few, samples, probabilities. Stage: use.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.chain.features.text import Known
from loopwise.apps.chain.model import of_order
from loopwise.apps.partial import Ranked
from loopwise.apps.saved import SavedEstimator, written
from loopwise.compiled.threads import available_threads
from loopwise.decode.chains import Decoder, Posterior, Viterbi
from loopwise.decode.rules import Flags, Rules
from loopwise.graph.structured.k_best import check_count
from loopwise.inference.families.chains import Chains
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.chain.second_order import SecondOrder
from loopwise.learn.fields import Record
from loopwise.potentials.linear import Design, Floats, Integers


@dataclass(frozen=True, eq=False)
class Asked:
    """Scores of the sequences that are asked about, minus infinity where something is impossible.

    ``told``: tags by number ``[tokens]`` in the form in which answers are given, one for each sequence. ``pairs``: the
    problem, if states are pairs of tags.
    """

    chains: Chains
    unary: Floats  # [tokens, K]
    pair: Floats  # [1 or tokens, K, K]
    told: Callable[[Integers], list[Any]]
    pairs: SecondOrder | None = None

    @staticmethod
    def of(problem: ChainProblem, weights: ChainWeights, told: Callable[[Integers], list[Any]]) -> Asked:
        """What a problem's weights say, under its rules and what is given."""
        unary, pair = problem.scores(weights)
        pairs = problem if isinstance(problem, SecondOrder) else None
        return Asked(problem.chains, problem.held(unary), pair, told, pairs)

    def tags(self, path: Integers) -> Integers:
        """The tags of a path of states."""
        return path if self.pairs is None else self.pairs.tags(path)

    def marginals(self) -> Floats:
        """The probability of each tag, ``[tokens, K]``."""
        single = self.chains.marginals(self.unary, self.pair).single
        return single if self.pairs is None else self.pairs.single(single)


class ChainEstimator(SavedEstimator):
    """Base of :class:`~loopwise.apps.Tagger` and :class:`~loopwise.apps.ChainCRF`."""

    weights_: ChainWeights
    rules_: Rules | None
    seed: int
    threads: int | None
    order: int

    @abstractmethod
    def _asked(self, given: Any, evidence: Any) -> Asked:
        """The scores of sequences as users give them."""

    @property
    @abstractmethod
    def decoder_(self) -> Decoder:
        """The decoder that answers."""

    @property
    def _budget(self) -> str:
        return f"exact, decided by {written(self.decoder_)}"

    @property
    @abstractmethod
    def _tags(self) -> tuple[str, ...]:
        """The tags by name."""

    def _made(
        self, unary: Design, steps: Design | None, start: Integers, known: Known | None, rules: Rules | None
    ) -> ChainProblem:
        """Sequences as the chain engine takes them."""
        threads = available_threads() if self.threads is None else self.threads
        gold = np.zeros(0, dtype=np.int64) if known is None else known.gold
        allowed = None if known is None else known.allowed
        return of_order(
            ChainProblem(unary, steps, Chains(start, threads), self._tags, gold, allowed, rules), self.order
        )

    def _decided(self, asked: Asked) -> Integers:
        """Tags by number; rules are in the scores already."""
        decoder = self.decoder_
        if isinstance(decoder, Posterior):
            best: Integers = asked.marginals().argmax(axis=1)
            return best
        if isinstance(decoder, Viterbi) and decoder.valid:
            decoder = Viterbi(valid=False)
        return asked.tags(decoder.decide(asked.chains, asked.unary, asked.pair, self._tags))

    def _check_rules(self, problem: ChainProblem) -> None:
        """A ValueError if gold tags break the rules."""
        broken = np.zeros(0) if problem.rules is None else problem.rules.broken(problem.chains, problem.gold)
        if broken.size:
            sentence = int(np.searchsorted(problem.chains.start, broken[0], side="right")) - 1
            raise ValueError(
                f"sentence {sentence} has the tag {self._tags[problem.gold[int(broken[0])]]!r} where the constraints "
                "forbid it; forbid less, or mend the tags"
            )

    def _best(self, asked: Asked, k: int) -> list[list[Ranked]]:
        """The k most probable answers of each sequence."""
        check_count(k)
        paths, scores = asked.chains.k_best(asked.unary, asked.pair, k)
        return _ranked(asked, paths, scores)

    def _drawn(self, asked: Asked, count: int | None, seed: int | None) -> Any:
        generator = np.random.default_rng(self.seed if seed is None else seed)
        if count is None:
            return asked.told(asked.tags(asked.chains.sample(asked.unary, asked.pair, generator)))
        check_count(count)
        paths = [asked.chains.sample(asked.unary, asked.pair, generator) for _ in range(count)]
        scores = [asked.chains.chain_scores(asked.unary, asked.pair, path) for path in paths]
        return _ranked(asked, np.array(paths), np.array(scores))


def _ranked(asked: Asked, paths: Integers, scores: Floats) -> list[list[Ranked]]:
    """Paths ``[k, tokens]`` of scores ``[k, chains]`` with their probabilities, sequence by sequence."""
    shares = np.exp(scores - asked.chains.marginals(asked.unary, asked.pair).log_z)
    rows = [asked.told(asked.tags(path)) for path in paths]
    return [
        [
            Ranked(row[place], float(share[place]))
            for row, share, score in zip(rows, shares, scores, strict=True)
            if score[place] > -np.inf
        ]
        for place in range(scores.shape[1])
    ]


def kept_rules(rules: Rules | None) -> dict[str, Any] | None:
    """Rules as JSON."""
    if rules is None:
        return None
    return {name: getattr(rules, name).astype(int).tolist() for name in ("first", "follow", "last")}


def read_rules(told: Record, states: int) -> Rules | None:
    """What :func:`kept_rules` wrote."""

    def flags(name: str, shape: tuple[int, ...]) -> Flags:
        found: NDArray[Any] = np.array(given.raw(name))
        if found.shape != shape or found.dtype.kind not in "bi" or not np.isin(found, (0, 1)).all():
            raise ValueError(f"the rules {name!r} must be 0 or 1 for each of {states} tags")
        return found.astype(np.bool_)

    if told.raw("rules") is None:
        return None
    given = told.record("rules")
    return Rules(flags("first", (states,)), flags("follow", (states, states)), flags("last", (states,)))


def read_weights(told: Record, features: int, step_features: int, states: int) -> ChainWeights:
    """The weights of a file."""
    unary, pair = told.weights("unary", (features, states)), told.weights("pair", (step_features, states * states))
    vector = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
    return ChainWeights.of_vector(vector, features, step_features, states)
