r"""Losses of one labelling, for comparisons that need some loss: those of Domke 2010, section 5.

In: a graph and a value for every variable. Out: functions from :class:`Beliefs` to a number, summed over a batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.evidence import EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.beliefs import Beliefs

LEAST = 1e-12  # beliefs are clamped here: the logarithm of an impossible value has no gradient

LabellingLoss = Callable[[Beliefs, Integers], Tensor]


def random_labelling(graph: FactorGraph, seed: int, evidence: EvidenceLike = None) -> Integers:
    """A uniformly drawn value for each variable, or the observed one, ``[variables]``."""
    drawn = np.random.default_rng(seed).integers(0, graph.cardinalities)
    known = clamped_values(graph, evidence)
    return np.where(known >= 0, known, drawn).astype(np.int64)


def univariate_likelihood(beliefs: Beliefs, labels: Integers) -> Tensor:
    r""":math:`-\sum_i \log\mu(\hat x_i)`."""
    return -_of_variables(beliefs, labels).clamp_min(LEAST).log().sum()


def clique_likelihood(beliefs: Beliefs, labels: Integers) -> Tensor:
    r""":math:`-\sum_\alpha \log\mu(\hat x_\alpha)`."""
    picked = [_of_factors(beliefs, name, labels) for name in _names(beliefs)]
    return torch.stack([-part.clamp_min(LEAST).log().sum() for part in picked]).sum()


def univariate_quadratic(beliefs: Beliefs, labels: Integers) -> Tensor:
    r""":math:`\sum_i [\sum_x \mu(x)^2 - 2 \mu(\hat x_i)]`."""
    return beliefs.states.square().sum() - 2 * _of_variables(beliefs, labels).sum()


def clique_quadratic(beliefs: Beliefs, labels: Integers) -> Tensor:
    r""":math:`\sum_\alpha [\sum_x \mu(x)^2 - 2 \mu(\hat x_\alpha)]`."""
    parts = [
        beliefs.factor(name).square().sum() - 2 * _of_factors(beliefs, name, labels).sum() for name in _names(beliefs)
    ]
    return torch.stack(parts).sum()


def _names(beliefs: Beliefs) -> list[str]:
    return [group.name for group in beliefs.graph.groups]


def _of_variables(beliefs: Beliefs, labels: Integers) -> Tensor:
    index = beliefs.graph.layout.state_start[:-1] + labels
    return beliefs.states[..., torch.tensor(index, device=beliefs.states.device)]


def _of_factors(beliefs: Beliefs, name: str, labels: Integers) -> Tensor:
    group, table = beliefs.graph.group(name), beliefs.factor(name)
    places = (np.arange(group.count), *labels[group.scopes].T)
    index = np.ravel_multi_index(places, (group.count, *group.shape)) if group.count else np.zeros(0, dtype=np.int64)
    flat = table.reshape(*table.shape[: table.ndim - 1 - group.arity], -1)
    return flat[..., torch.tensor(index, device=table.device)]
