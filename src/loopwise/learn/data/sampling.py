"""Synthetic data: joint samples of a known model, and the roles of the published study.

In: potentials, a seed. Out: :class:`Examples`. Stage: learning (Stoyanov et al. 2011, section 6).
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.exact.method import Exact
from loopwise.inference.gibbs.method import sample as gibbs_sample
from loopwise.learn.data.examples import Examples
from loopwise.learn.system import graph_of

BURN_IN = 2000  # sweeps: couplings of standard normal tables are strong, and a chain is drawn from only once


def thirds(graph: FactorGraph, seed: int) -> Integers:
    """A random third of the variables input, a third hidden, the rest output: roles ``[variables]``.

    Thirds are rounded down, so that outputs are never fewer. The same ``seed`` gives the same roles.
    """
    order = np.random.default_rng(seed).permutation(graph.variables)
    third = graph.variables // 3
    roles = np.full(graph.variables, Role.OUTPUT, dtype=np.int64)
    roles[order[:third]] = Role.INPUT
    roles[order[third : 2 * third]] = Role.HIDDEN
    return roles


@overload
def sample_examples(
    potentials: nn.Module,
    count: int,
    *,
    roles: ArrayLike,
    seed: int,
    burn_in: int = ...,
    chains: int | None = ...,
    thinning: int = ...,
    threads: int | None = ...,
    exact: Exact | None = ...,
) -> Examples: ...


@overload
def sample_examples(
    potentials: nn.Module,
    count: tuple[int, ...],
    *,
    roles: ArrayLike,
    seed: int,
    burn_in: int = ...,
    chains: int | None = ...,
    thinning: int = ...,
    threads: int | None = ...,
    exact: Exact | None = ...,
) -> tuple[Examples, ...]: ...


def sample_examples(
    potentials: nn.Module,
    count: int | tuple[int, ...],
    *,
    roles: ArrayLike,
    seed: int,
    burn_in: int = BURN_IN,
    chains: int | None = None,
    thinning: int = 200,
    threads: int | None = None,
    exact: Exact | None = None,
) -> Examples | tuple[Examples, ...]:
    """Joint samples of a model as examples: one set of them, or one for each number of a tuple (training, test).

    ``potentials``: a module that knows its ``graph`` and gives log-potentials without batch dimensions. ``roles``:
    ``[variables]``, or a row for each sample. By default each sample ends a Gibbs chain of its own, ``burn_in`` sweeps
    after a random start; ``chains``, ``thinning``, ``threads`` as for :func:`~loopwise.inference.gibbs_sample`. With
    ``exact=lw.Exact()`` they are independent exact samples from a junction tree instead (an error where that is too
    large). Values of hidden variables are kept, and looked at by nobody.

    Parameters
    ----------
    potentials: a module that knows its ``graph`` and gives log-potentials without batch dimensions.
    count: how many samples, or how many of each set.
    roles: ``[variables]``, or a row for each sample.
    seed, burn_in, chains, thinning, threads: as for :func:`~loopwise.inference.gibbs_sample`.
    exact: independent exact samples from a junction tree instead (an error where that is too large).

    Returns
    -------
    Examples, or a tuple of them.

    >>> import loopwise as lw
    >>> potentials = lw.TablePotentials.random(lw.chain(4), seed=0)
    >>> roles = [lw.Role.OUTPUT] * 4
    >>> train, test = sample_examples(potentials, (20, 10), roles=roles, seed=1, exact=lw.Exact())
    >>> len(train), len(test)
    (20, 10)
    """
    graph = graph_of(potentials)
    sizes = (count,) if isinstance(count, int) else tuple(count)
    bad = next((size for size in sizes if size < 1), None)
    if bad is not None or not sizes:
        raise ValueError(f"count must be a positive number of examples, or several of them, not {count}")
    with torch.no_grad():
        if exact is not None:
            values: Tensor = exact(graph, potentials).sample(sum(sizes), seed)
        else:
            values = gibbs_sample(
                graph,
                potentials,
                sum(sizes),
                seed=seed,
                burn_in=burn_in,
                chains=chains,
                thinning=thinning,
                threads=threads,
            )
    if values.ndim != 2:
        raise ValueError(f"potentials of {tuple(values.shape[1:-1])} examples at once cannot be sampled; give one")
    everything = Examples.of(graph, values, roles)
    if isinstance(count, int):
        return everything
    return tuple(everything[start:end] for start, end in pairwise([0, *accumulate(sizes)]))
