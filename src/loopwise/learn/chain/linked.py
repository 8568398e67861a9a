"""Chains with links between tokens that are far apart: their marginals, under any inference method of the library.

In: scores of tags, steps and links. Out: :class:`LinkedMarginals`; :class:`ChainView`, what is said of each sentence.
Stage: learning. Sentences without a link are chains, and exact; the others are one factor graph.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.offsets import starts_of
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.families.chains import ChainMarginals, Chains
from loopwise.notices import ConvergenceWarning, ImpossibleError
from loopwise.potentials.linear import Floats, Integers


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of tokens ``place`` ``[links, 2]``, the earlier first; ``kind`` ``[links]``: which of ``kinds`` tables
    each has. ``document`` ``[sentences]``: links stay within one."""

    place: Integers
    kind: Integers
    kinds: int
    document: Integers


@dataclass(frozen=True, eq=False)
class LinkedMarginals:
    """Marginals of tags ``[tokens, K]``; of steps, shaped like their scores: each, or their sum; of links, the sum of
    each kind ``[kinds, K, K]``; log Z of all sentences together."""

    single: Floats
    double: Floats
    link: Floats
    log_z: float


@dataclass(frozen=True, eq=False)
class ChainView:
    """Sentences as chains of their own that have the marginals which inference found: scores of tags and of steps.

    ``single``: the marginals; ``status``: how far they can be trusted. Both are None where there is no link, and all
    is exact.
    """

    unary: Floats
    pair: Floats
    single: Floats | None = None
    status: Status | None = None


@dataclass(frozen=True, eq=False)
class LinkedChains:
    """Chains of ``states`` tags with ``links`` between their tokens."""

    chains: Chains
    links: Links
    states: int
    inference: Inference

    def marginals(self, unary: Floats, pair: Floats, link: Floats) -> LinkedMarginals:
        """Of tags, steps and links, given scores. Whether inference converged is not told: training calls this often,
        and answers tell it."""
        shared = len(pair) == 1
        loose = self.loose_marginals(unary, pair)
        single, double = np.empty_like(unary), np.zeros_like(pair)
        single[self.loose_tokens] = loose.single
        double[slice(None) if shared else self.loose_tokens] = loose.double
        sums, log_z = np.zeros_like(link), float(loose.log_z.sum())
        if len(self.tokens):
            beliefs = self.inferred(*map(torch.from_numpy, (unary, pair, link)), quiet=True)
            steps = beliefs.factor("pair").numpy()
            single[self.tokens] = self.states_of(beliefs).numpy()
            if shared:
                double[0] += steps.sum(axis=0)
            else:
                double[self.follows] = steps
            for kind in self.kinds:
                sums[kind] = beliefs.factor(_group(kind)).numpy().sum(axis=0)
            log_z += float(beliefs.log_partition)
        return LinkedMarginals(single, double, sums, log_z)

    def view(self, unary: Floats, pair: Floats, link: Floats) -> ChainView:
        r"""Each sentence as a chain: with :math:`b` the beliefs, :math:`b(y_1)\prod_t b(y_t\mid y_{t-1})`.

        Where links leave a sentence and none is within it, this is its distribution, at a fixed point as good as the
        beliefs are; links within one are only in the beliefs that it has.
        """
        if not len(self.tokens):
            return ChainView(unary, pair)
        beliefs = self.inferred(*map(torch.from_numpy, (unary, pair, link)))
        steps, single = beliefs.factor("pair").numpy(), np.empty_like(unary)
        single[self.loose_tokens] = self.loose_marginals(unary, pair).single
        single[self.tokens] = self.states_of(beliefs).numpy()
        own, tables = unary.copy(), np.empty((len(unary), self.states, self.states))
        tables[:] = pair
        with np.errstate(divide="ignore", invalid="ignore"):
            own[self.tokens] = np.log(single[self.tokens])
            own[self.follows] = 0.0
            after = np.log(steps / steps.sum(axis=2, keepdims=True))
        tables[self.follows] = np.where(np.isnan(after), -np.inf, after)
        return ChainView(own, tables, single, beliefs.status)

    def log_partitions(self, unary: Floats, pair: Floats, link: Floats) -> Floats:
        """log Z of each document, in the order of their first sentences; minus infinity where nothing is possible."""
        _, first = np.unique(self.links.document, return_index=True)
        found = []
        for document in self.links.document[np.sort(first)].tolist():
            part, tokens = self._only(document)
            try:
                steps = pair if len(pair) == 1 else pair[tokens]
                found.append(part.marginals(unary[tokens], steps, link).log_z)
            except ImpossibleError:
                found.append(-np.inf)
        return np.array(found)

    def loose_marginals(self, unary: Floats, pair: Floats, *, each: bool = False) -> ChainMarginals:
        """Of the sentences without links, exact."""
        steps = pair if len(pair) == 1 else pair[self.loose_tokens]
        return self.loose.marginals(unary[self.loose_tokens], steps, each=each)

    def inferred(self, unary: Tensor, pair: Tensor, link: Tensor, *, quiet: bool = False) -> Beliefs:
        """Beliefs of the linked sentences, differentiable in the scores. ``quiet``: without a warning where inference
        did not converge."""
        steps = pair if len(pair) == 1 else pair[torch.from_numpy(self.follows)]
        tables = {_group(kind): link[kind : kind + 1] for kind in self.kinds}
        potentials = {"unary": unary[torch.from_numpy(self.tokens)], "pair": steps, **tables}
        try:
            with warnings.catch_warnings():
                if quiet:
                    warnings.simplefilter("ignore", ConvergenceWarning)
                return self.inference(self.graph, potentials)
        except ImpossibleError:
            self.chains.marginals(unary.detach().numpy(), pair.detach().numpy())  # which names the sentence
            raise

    def states_of(self, beliefs: Beliefs) -> Tensor:
        """Marginals of the linked tokens, ``[linked, K]``."""
        return beliefs.states.reshape(-1, self.states)

    def _only(self, document: int) -> tuple[LinkedChains, Integers]:
        """One document by itself, and its tokens."""
        lengths, chosen = np.diff(self.chains.start), self.links.document == document
        own = np.repeat(chosen, lengths)
        number, inside = np.cumsum(own) - 1, own[self.links.place].all(axis=1)
        links = Links(
            number[self.links.place[inside]], self.links.kind[inside], self.links.kinds, self.links.document[chosen]
        )
        chains = Chains(starts_of(lengths[chosen]), self.chains.threads)
        return LinkedChains(chains, links, self.states, self.inference), np.flatnonzero(own)

    # --- Which sentences have links ----------------------------------------------------------------------------------

    @cached_property
    def _linked(self) -> tuple[np.ndarray, np.ndarray]:
        """Which sentences have a link, and which tokens are in such."""
        lengths = np.diff(self.chains.start)
        sentence = np.repeat(np.arange(len(lengths)), lengths)
        linked = np.zeros(len(lengths), dtype=np.bool_)
        linked[sentence[self.links.place].reshape(-1)] = True
        return linked, linked[sentence]

    @cached_property
    def tokens(self) -> Integers:
        """The tokens of sentences that have a link."""
        return np.flatnonzero(self._linked[1])

    @cached_property
    def follows(self) -> Integers:
        """Those among them that follow another."""
        return np.flatnonzero(self.chains.follows & self._linked[1])

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """The kinds of which there are links."""
        return tuple(np.unique(self.links.kind).tolist())

    @cached_property
    def loose_tokens(self) -> Integers:
        """The tokens of the other sentences."""
        return np.flatnonzero(~self._linked[1])

    @cached_property
    def loose(self) -> Chains:
        """The other sentences."""
        return Chains(starts_of(np.diff(self.chains.start)[~self._linked[0]]), self.chains.threads)

    @cached_property
    def graph(self) -> FactorGraph:
        """The linked sentences: groups ``unary``, ``pair``, and one for each kind of links."""
        number = np.cumsum(self._linked[1]) - 1
        links, follows = self.links, self.follows
        scopes = {
            "unary": np.arange(len(self.tokens))[:, None],
            "pair": number[np.stack([follows - 1, follows], axis=1)],
            **{_group(kind): number[links.place[links.kind == kind]] for kind in self.kinds},
        }
        return FactorGraph(np.full(len(self.tokens), self.states), scopes)


def _group(kind: int) -> str:
    return f"link{kind}"
