r"""Losses of a whole text as smooth functions of chain marginals: tokens, token F1, entity F1.

In: marginals of tags and of steps, gold tags. Out: a value, and its slopes in both. Stage: loss. A loss is of the text
as a whole, as it is reported, not a mean over sentences.

An entity is right if its tags are, and if it ends where it should. By the Markov property the probability of that is
:math:`\prod_t p(y_{t-1},y_t)/\prod_t p(y_t)` along the span, a function of marginals: so the expected counts of entity
F1 are exact, though the F of expected counts is not the expected F.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise import loss as losses
from loopwise.formats.iob import OUTSIDE, Spans, TagSet, find_spans
from loopwise.graph.factor_graph import FactorGraph
from loopwise.loss.f_measure import f_measure
from loopwise.potentials.linear import Floats, Integers


@dataclass(frozen=True, eq=False)
class GoldTags:
    """The right tags ``[tokens]``, by number, of sentences that begin at ``start[:-1]``.

    ``allowed`` ``[tokens, K]``: where some are not known (``tag`` -1), which tags are right; tokens that may have any
    are not scored.
    """

    tag: Integers
    start: Integers
    labels: tuple[str, ...]
    allowed: NDArray[np.bool_] | None = None

    @cached_property
    def graph(self) -> FactorGraph:
        """The tokens as variables without factors, as losses of variables want them."""
        return FactorGraph(np.full(len(self.tag), len(self.labels)), {})

    @cached_property
    def targets(self) -> losses.Targets:
        """The tags as losses want them."""
        if self.allowed is None:
            return losses.Targets.of(self.graph, torch.from_numpy(self.tag))
        right = self.allowed & ~self.allowed.all(axis=1, keepdims=True)
        return losses.Targets.of(self.graph, torch.from_numpy(right.reshape(-1)))

    @cached_property
    def kinds(self) -> TagSet:
        """What each label says of entities."""
        return TagSet.of(self.labels)

    @cached_property
    def spans(self) -> Spans:
        """The right entities."""
        return find_spans(self.tag, self.kinds, self.start)


class SoftLoss(Protocol):
    """A smooth loss of ``single`` ``[tokens, K]`` and ``double`` ``[tokens, K, K]`` (zero at first tokens)."""

    def __call__(self, single: Tensor, double: Tensor, gold: GoldTags) -> Tensor:
        """Differentiable in both."""
        ...


@dataclass(frozen=True)
class TokenHamming:
    """The expected share of wrong tokens."""

    def __call__(self, single: Tensor, double: Tensor, gold: GoldTags) -> Tensor:
        return losses.Hamming()(_TokenCosts(gold.graph, single), gold.targets)


@dataclass(frozen=True)
class TokenF1:
    """1 - F1 of the tokens that are in an entity: those with any tag but O."""

    def __call__(self, single: Tensor, double: Tensor, gold: GoldTags) -> Tensor:
        positive = [number for number, label in enumerate(gold.labels) if label != OUTSIDE]
        if not positive:
            raise ValueError(f"token F1 needs tags other than {OUTSIDE}; give tags of entities")
        return losses.F1(positive=positive)(_TokenCosts(gold.graph, single), gold.targets)


@dataclass(frozen=True)
class EntityFBeta:
    r"""1 - :math:`F_\beta` of entities: :math:`1-(1+\beta^2)A/(\beta^2G+D)`.

    :math:`A` and :math:`D` are the expected right and decided ones, :math:`G` the gold ones. ``beta`` above 1: recall
    counts for more than precision. ``weights``: what an entity of each type counts, 1 where a type has none.
    """

    beta: float = 2.0
    weights: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.beta < np.inf:
            raise ValueError(f"beta must be a positive number, not {self.beta}")
        wrong = next((name for name, weight in (self.weights or {}).items() if not 0.0 <= weight < np.inf), None)
        if wrong is not None:
            raise ValueError(f"the weight of entities of type {wrong!r} must be a number of at least 0")

    def __call__(self, single: Tensor, double: Tensor, gold: GoldTags) -> Tensor:
        known = self.weights or {}
        worth = np.array([known.get(name, 1.0) for name in gold.kinds.types])
        own = torch.from_numpy(worth[gold.spans.type])
        agreed = (span_probabilities(single, double, gold) * own).sum()
        decided = expected_entities(single, double, gold, worth)
        counts = [torch.ones_like(agreed), agreed, decided, own.sum().to(agreed)]
        return 1.0 - f_measure(torch.stack(counts), self.beta)


@dataclass(frozen=True)
class EntityF1(EntityFBeta):
    r"""1 - F1 of entities: :math:`1-2A/(G+D)`, :math:`A` and :math:`D` the expected right and decided ones."""

    beta: float = field(default=1.0, init=False, repr=False)


@dataclass(frozen=True)
class SoftmaxMargin:
    r""":math:`\sum_i\log\sum_y e^{\theta(y)+\Delta(y,y_i)}-\theta(y_i)`: likelihood with a margin.

    (Gimpel & Smith 2010.) :math:`\Delta` is ``cost`` for each wrong element, times the class weight of the right label.
    A smooth upper bound of the structured hinge loss, convex, at the price of likelihood.
    """

    cost: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.cost < np.inf:
            raise ValueError(f"cost must be a finite number, at least 0, not {self.cost}")


@dataclass(frozen=True, eq=False)
class WeightedLikelihood:
    r""":math:`-\frac1n\sum_t w_{y_t}\log p(y_t\mid y_{t-1},x)`: likelihood by the chain rule, class by class.

    With weights 1 this is the likelihood of the sequences. ``weights`` ``[K]``.
    """

    weights: Floats

    def __call__(self, single: Tensor, double: Tensor, gold: GoldTags) -> Tensor:
        token = torch.arange(len(gold.tag))
        tag = torch.from_numpy(gold.tag)
        begin = torch.zeros(len(tag), dtype=torch.bool)
        begin[torch.from_numpy(gold.start[:-1][np.diff(gold.start) > 0])] = True
        logs = _safe_log(single[token, tag])
        after, before = token[~begin], token[~begin] - 1
        steps = _safe_log(double[after, tag[before], tag[after]]) - logs[before]
        conditional = logs.masked_fill(~begin, 0.0).index_add(0, after, steps)
        return -(torch.from_numpy(self.weights)[tag] * conditional).mean()


@dataclass(frozen=True, eq=False)
class OfElements:
    """A loss of ``lw.loss`` over all elements together."""

    loss: losses.Loss

    def __call__(self, single: Tensor, double: Tensor, gold: GoldTags) -> Tensor:
        return self.loss(_TokenCosts(gold.graph, single), gold.targets)


OF_TOKENS = (TokenHamming, TokenF1, OfElements)  # which can leave tokens out


def expected_entities(single: Tensor, double: Tensor, gold: GoldTags, worth: Floats | None = None) -> Tensor:
    """How many entities are begun, on average: at ``B``, and at ``I`` that continues nothing.

    ``worth``: what one of each type counts, 1 by default.
    """
    tags = gold.kinds
    each = np.ones(len(tags.types)) if worth is None else worth
    of_tag = np.append(each, 0.0)[tags.type]  # the type of O is -1
    begin = torch.from_numpy((tags.kind == 1) * of_tag)
    inside = tags.kind == 2
    same = (tags.type[:, None] == tags.type[None, :]) & (tags.type >= 0)[:, None]
    broken = torch.from_numpy((~same & inside[None, :]) * of_tag)
    first = torch.from_numpy(gold.start[:-1][np.diff(gold.start) > 0])
    at_first = single[first] @ torch.from_numpy(inside * of_tag)
    return (single @ begin).sum() + (double * broken).sum() + at_first.sum()


def span_probabilities(single: Tensor, double: Tensor, gold: GoldTags) -> Tensor:
    """The probability of each gold entity, all its tags and its end right; ``[spans]``.

    Chain rule along the span: p(it begins) times p(tag | tag before), times 1 - p(it goes on | last tag). It may begin
    with ``B``, or with an ``I`` that continues nothing, as evaluation has it.
    """
    place = {label: number for number, label in enumerate(gold.labels)}
    names = [gold.kinds.types[number] for number in gold.spans.type.tolist()]
    total = torch.zeros(len(names), dtype=single.dtype)
    inside = np.array([place.get(f"I-{name}", -1) for name in names], dtype=np.int64)
    for letter in "BI":
        first = np.array([place.get(f"{letter}-{name}", -1) for name in names], dtype=np.int64)
        there = np.flatnonzero((first >= 0) & ((inside >= 0) | (gold.spans.end - gold.spans.start == 1)))
        found = _begun_with(single, double, gold, there, first[there], inside[there], letter == "I")
        total = total.index_add(0, torch.from_numpy(there), found)
    return total


def _begun_with(
    single: Tensor, double: Tensor, gold: GoldTags, which: Integers, first: Integers, inside: Integers, broken: bool
) -> Tensor:
    """The probability of the spans ``which`` with first tags ``first`` and all others ``inside``."""
    begin, end = gold.spans.start[which], gold.spans.end[which]
    mass = _at(single, begin, first)
    if broken:  # the tag continues nothing: not what is before, unless that is another sentence
        mass = mass - _continued(double, gold, begin, first, gold.spans.type[which])
    lengths = end - begin - 1
    span = np.repeat(np.arange(len(which)), lengths)
    token = np.arange(len(span)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + begin[span] + 1
    before = np.where(token == begin[span] + 1, first[span], inside[span])
    steps = _safe_log(_at(double, token, before, inside[span])) - _safe_log(_at(single, token - 1, before))
    logs = torch.zeros_like(mass).index_add(0, torch.from_numpy(span), steps)
    last, final = np.where(lengths > 0, inside, first), np.isin(end, gold.start[1:])
    following = np.where(final, end - 1, end)
    goes_on = torch.from_numpy(_inside_of(gold, gold.spans.type[which]))
    share = (_at(double, following, last) * goes_on).sum(-1) / _at(single, end - 1, last).clamp_min(_LEAST)
    stops = torch.where(torch.from_numpy(final), torch.ones_like(share), 1.0 - share)
    return mass * logs.exp() * stops


def _continued(double: Tensor, gold: GoldTags, token: Integers, tag: Integers, kind: Integers) -> Tensor:
    """The probability that each token has its tag after one of the same type; 0 at first tokens."""
    same = torch.from_numpy((gold.kinds.type[None, :] == kind[:, None]).astype(np.float64))
    columns = double[torch.from_numpy(token), :, torch.from_numpy(tag)]
    return (columns * same).sum(-1)  # the tables of first tokens are zero


def _inside_of(gold: GoldTags, kind: Integers) -> NDArray[np.float64]:
    """Which labels are inside an entity of each type, ``[spans, K]``."""
    inside = (gold.kinds.kind == 2)[None, :] & (gold.kinds.type[None, :] == kind[:, None])
    return np.asarray(inside, dtype=np.float64)


_LEAST = 1e-300  # probabilities below are taken for this: their entities count for nothing either way


def _safe_log(probability: Tensor) -> Tensor:
    return probability.clamp_min(_LEAST).log()


def _at(table: Tensor, *places: Integers) -> Tensor:
    return table[tuple(torch.from_numpy(np.ascontiguousarray(place)) for place in places)]


class _TokenCosts:
    """Tag marginals as losses read them: all tokens are the variables of one example."""

    def __init__(self, graph: FactorGraph, single: Tensor) -> None:
        self.graph = graph
        self.states = single.reshape(-1)

    def factor(self, name: str) -> Tensor:
        raise ValueError(f"a loss of tokens has no factors {name!r}; use a loss on variables")


def slopes(loss: SoftLoss, single: Floats, double: Floats, gold: GoldTags) -> tuple[float, Floats, Floats]:
    """Value, and slopes in the marginals of tags and of steps."""
    tags, steps = torch.from_numpy(single).requires_grad_(), torch.from_numpy(double).requires_grad_()
    value = loss(tags, steps, gold)
    found = torch.autograd.grad(value, (tags, steps), allow_unused=True)
    unary, pair = (
        torch.zeros_like(leaf) if slope is None else slope for leaf, slope in zip((tags, steps), found, strict=True)
    )
    return float(value.detach()), unary.contiguous().numpy(), pair.contiguous().numpy()
