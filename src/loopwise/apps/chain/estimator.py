"""What chains of words and chains of feature vectors share: answers from scores, with or without given tags.

In: scores of what is asked. Out: tags, the best few, samples, probabilities. Stage: use.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from loopwise.apps.chain.features.text import Known
from loopwise.apps.chain.model import of_order
from loopwise.apps.chain.skip import Skip
from loopwise.apps.partial import RankedAnswer
from loopwise.apps.saved import SavedEstimator, written
from loopwise.arguments import checked_kind, checked_part, checked_whole
from loopwise.compiled.threads import available_threads
from loopwise.decode.chains import ChainDecoder, Posterior, Viterbi
from loopwise.decode.rules import Forbid, Rules
from loopwise.graph.structured.k_best import check_count
from loopwise.inference.beliefs import Status
from loopwise.inference.families.chains import Chains
from loopwise.learn.chain.linked import Links
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.chain.second_order import SecondOrder
from loopwise.learn.chain.skip import SkipChain
from loopwise.potentials.linear import Design, Floats, Integers


@dataclass(frozen=True, eq=False)
class ScoredSequences:
    """Scores of the sequences that are asked about, minus infinity where something is impossible.

    ``told``: tags by number ``[tokens]`` in the form in which answers are given, one for each sequence. ``pairs``: the
    problem, if states are pairs of tags. ``linked``: sequences may have links, and are seen as chains of their own;
    ``single`` are then their marginals, and ``status`` says how good, if there are links at all.
    """

    chains: Chains
    unary: Floats  # [tokens, K]
    pair: Floats  # [1 or tokens, K, K]
    told: Callable[[Integers], list[Any]]
    pairs: SecondOrder | None = None
    linked: bool = False
    single: Floats | None = None
    status: Status | None = None

    @staticmethod
    def of(problem: ChainProblem, weights: ChainWeights, told: Callable[[Integers], list[Any]]) -> ScoredSequences:
        """What a problem's weights say, under its rules and what is given."""
        if isinstance(problem, SkipChain):
            seen = problem.view(weights)
            return ScoredSequences(problem.chains, seen.unary, seen.pair, told, None, True, seen.single, seen.status)
        unary, pair = problem.scores(weights)
        pairs = problem if isinstance(problem, SecondOrder) else None
        return ScoredSequences(problem.chains, problem.held(unary), pair, told, pairs)

    def tags(self, path: Integers) -> Integers:
        """The tags of a path of states."""
        return path if self.pairs is None else self.pairs.tags(path)

    def marginals(self) -> Floats:
        """The probability of each tag, ``[tokens, K]``."""
        if self.single is not None:
            return self.single
        single = self.chains.marginals(self.unary, self.pair).single
        return single if self.pairs is None else self.pairs.single(single)

    def how(self) -> Status:
        """How far the marginals can be trusted."""
        none = torch.zeros((), dtype=torch.int64)
        return Status("Chain", True, True, none, none.double()) if self.status is None else self.status

    def check_chain(self, what: str) -> None:
        """Refuses what only chains without links have."""
        if self.linked:
            raise ValueError(
                f"{what} are exact, and those of a model with links (skip) are not to be had: ask for predict or "
                "predict_marginals, or train without skip"
            )


class ChainEstimator(SavedEstimator):
    """Base of :class:`~loopwise.apps.Tagger` and :class:`~loopwise.apps.ChainCRF`."""

    weights_: ChainWeights
    rules_: Rules | None
    seed: int
    threads: int | None
    order: int
    skip: Any
    learner: Any
    decoder: ChainDecoder | None
    constraints: Forbid | None

    @abstractmethod
    def _asked(self, given: Any, evidence: Any) -> ScoredSequences:
        """The scores of sequences as users give them."""

    @property
    @abstractmethod
    def decoder_(self) -> ChainDecoder:
        """The decoder that answers."""

    @property
    def _budget(self) -> str:
        return f"exact, decided by {written(self.decoder_)}"

    @property
    @abstractmethod
    def _tags(self) -> tuple[str, ...]:
        """The tags by name."""

    @property
    def _skip(self) -> Skip | None:
        """The links that are asked for."""
        return Skip.of(self.skip)

    def _check_options(self) -> None:
        """Refuses options that are of no use, before anything is read."""
        if self.threads is not None:
            checked_whole("threads", self.threads)
        if self.learner is not None:
            checked_part("learner", self.learner, "objective", "ChainSVM()")
        if self.decoder is not None:
            checked_part("decoder", self.decoder, "decide", "Viterbi()")
        checked_kind("constraints", self.constraints, (Forbid, type(None)), "a Forbid(...) or None")

    def _made(
        self,
        unary: Design,
        steps: Design | None,
        start: Integers,
        known: Known | None,
        rules: Rules | None,
        links: Links | None,
    ) -> ChainProblem:
        """Sequences as the chain engine takes them."""
        threads = available_threads() if self.threads is None else self.threads
        gold = np.zeros(0, dtype=np.int64) if known is None else known.gold
        allowed = None if known is None else known.allowed
        problem = ChainProblem(unary, steps, Chains(start, threads), self._tags, gold, allowed, rules)
        if self._skip is None or links is None:
            return of_order(problem, self.order)
        own = {one.name: getattr(problem, one.name) for one in fields(problem)}
        return SkipChain(**own, links=links, inference=self._skip.method)

    def _decided(self, asked: ScoredSequences) -> Integers:
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

    def _best(self, asked: ScoredSequences, k: int) -> list[list[RankedAnswer]]:
        """The k most probable answers of each sequence."""
        check_count(k)
        asked.check_chain("the best few answers")
        paths, scores = asked.chains.k_best(asked.unary, asked.pair, k)
        return _ranked(asked, paths, scores)

    def _drawn(self, asked: ScoredSequences, count: int | None, seed: int | None) -> Any:
        asked.check_chain("samples")
        generator = np.random.default_rng(self.seed if seed is None else checked_whole("seed", seed, 0))
        if count is None:
            return asked.told(asked.tags(asked.chains.sample(asked.unary, asked.pair, generator)))
        check_count(count)
        paths = [asked.chains.sample(asked.unary, asked.pair, generator) for _ in range(count)]
        scores = [asked.chains.chain_scores(asked.unary, asked.pair, path) for path in paths]
        return _ranked(asked, np.array(paths), np.array(scores))


def _ranked(asked: ScoredSequences, paths: Integers, scores: Floats) -> list[list[RankedAnswer]]:
    """Paths ``[k, tokens]`` of scores ``[k, chains]`` with their probabilities, sequence by sequence."""
    shares = np.exp(scores - asked.chains.marginals(asked.unary, asked.pair).log_z)
    rows = [asked.told(asked.tags(path)) for path in paths]
    return [
        [
            RankedAnswer(row[place], float(share[place]))
            for row, share, score in zip(rows, shares, scores, strict=True)
            if score[place] > -np.inf
        ]
        for place in range(scores.shape[1])
    ]
