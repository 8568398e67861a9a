"""Losses with second derivatives."""

from __future__ import annotations

import loopwise as lw
from oracles.gradient_cases import everything, normal


def truncated(sweeps, **options):
    return lw.BP(iterations=sweeps, tolerance=0, **options)


def product(method, graph, tables, loss=everything, initial=None, seed=100):
    """H v for a random v, a part for each table (and for ``initial``, if given); -inf stays where it is."""
    leaves = {name: table.detach().clone().requires_grad_() for name, table in tables.items()}
    given = dict(leaves)
    if initial is not None:
        given["initial"] = initial = initial.detach().clone().requires_grad_()
    vector = [normal(leaf.shape, seed + number) for number, leaf in enumerate(given.values())]
    found = lw.hvp(lambda: loss(method(graph, leaves, initial=initial)), list(given.values()), vector)
    return dict(zip(given, found, strict=True))
