"""Ready-made graphs: grid, chain, complete, random. In: sizes and a seed. Out: a :class:`FactorGraph`."""

from __future__ import annotations

import math
from itertools import chain as flatten
from itertools import combinations

import numpy as np

from loopwise.arguments import checked_whole
from loopwise.graph.factor_graph import FactorGraph, Integers


def chain(length: int, states: int = 2) -> FactorGraph:
    """Variables in a row: groups ``unary`` ``[length, K]`` and ``pair`` ``[length - 1, K, K]``.

    Parameters
    ----------
    length: how many variables.
    states: values of each.

    Returns
    -------
    A graph whose pair factors join neighbours.

    >>> chain(4, states=3).group("pair").scopes.tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    checked_whole("length", length, 1)
    first = np.arange(length - 1)
    return _with_unary(length, states, np.stack([first, first + 1], axis=1))


def grid(rows: int, columns: int, states: int = 2, neighbours: int = 4) -> FactorGraph:
    """A ``rows`` x ``columns`` lattice, variable ``r * columns + c`` at row r, column c.

    Groups ``unary`` and ``pair``: first the pairs along rows, then those down columns, then (8 neighbours)
    the two diagonals downwards. With 4 neighbours there are ``rows * (columns - 1) + (rows - 1) * columns``
    pairs.

    Parameters
    ----------
    rows, columns: of the lattice.
    states: values of each variable.
    neighbours: 4, or 8 with the diagonals.

    Returns
    -------
    A graph of ``rows * columns`` variables.

    >>> grid(2, 3).group("pair").count
    7
    """
    checked_whole("rows", rows, 1)
    checked_whole("columns", columns, 1)
    if neighbours not in (4, 8):
        raise ValueError(f"neighbours must be 4 or 8, not {neighbours}")
    cell = np.arange(rows * columns).reshape(rows, columns)
    links = [(cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:])]
    if neighbours == 8:
        links += [(cell[:-1, :-1], cell[1:, 1:]), (cell[:-1, 1:], cell[1:, :-1])]
    pairs = np.concatenate([np.stack([a.reshape(-1), b.reshape(-1)], axis=1) for a, b in links])
    return _with_unary(rows * columns, states, pairs)


def complete(variables: int, states: int = 2) -> FactorGraph:
    """Every pair of variables joined: groups ``unary`` and ``pair``.

    Parameters
    ----------
    variables: how many.
    states: values of each.

    Returns
    -------
    A graph with ``variables * (variables - 1) / 2`` pair factors.

    >>> complete(3).group("pair").scopes.tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    checked_whole("variables", variables, 1)
    pairs = np.stack(np.triu_indices(variables, 1), axis=1)
    return _with_unary(variables, states, pairs)


def random_mrf(
    variables: int, edges: int, states: int = 2, *, arity: int = 2, unary: bool = False, seed: int
) -> FactorGraph:
    """Distinct scopes drawn uniformly without replacement (Stoyanov et al. 2011, section 6: pairs only).

    The factors form the group ``pair`` (``factor`` when ``arity`` is not 2).

    Parameters
    ----------
    variables, edges: how many variables and how many factors.
    states: values of each variable.
    arity: variables of a factor.
    unary: whether each variable has a factor of its own besides, group ``unary``.
    seed: decides which scopes are drawn.

    Returns
    -------
    A graph; two calls with one seed give the same.

    >>> random_mrf(variables=6, edges=4, unary=True, seed=0)
    FactorGraph(6 variables, 10 factors: unary 6 of 2, pair 4 of 2x2)
    """
    checked_whole("variables", variables, 1)
    if not 2 <= arity <= variables:
        raise ValueError(f"arity must be from 2 to the number of variables ({variables}), not {arity}")
    possible = math.comb(variables, arity)
    if not 0 <= edges <= possible:
        raise ValueError(
            f"{edges} distinct scopes of {arity} among {variables} variables: there are only {possible}; "
            "ask for at most that many"
        )
    scopes = _distinct_scopes(np.random.default_rng(seed), variables, arity, edges)
    name = "pair" if arity == 2 else "factor"
    factors = {"unary": np.arange(variables)[:, None]} if unary else {}
    return FactorGraph(np.full(variables, states), {**factors, name: scopes})


def _distinct_scopes(rng: np.random.Generator, variables: int, arity: int, count: int) -> Integers:
    """``count`` distinct increasing tuples, uniform: chosen among all if those are few, else by rejection."""
    possible = math.comb(variables, arity)
    if possible <= max(4 * count, 10_000):
        members = flatten.from_iterable(combinations(range(variables), arity))
        everything = np.fromiter(members, dtype=np.int64, count=possible * arity).reshape(possible, arity)
        return everything[np.sort(rng.choice(possible, count, replace=False))]
    found = np.zeros((0, arity), dtype=np.int64)
    while len(found) < count:
        draws = np.sort(_draw_members(rng, variables, arity, 2 * (count - len(found)) + 16), axis=1)
        draws = draws[(draws[:, 1:] > draws[:, :-1]).all(axis=1)]
        merged = np.concatenate([found, draws])
        _, first = np.unique(merged, axis=0, return_index=True)
        found = merged[np.sort(first)][:count]
    return found[np.lexsort(found.T[::-1])]


def _draw_members(rng: np.random.Generator, variables: int, arity: int, draws: int) -> Integers:
    """Rows of ``arity`` variables, uniform but for repeats, which some rows may have."""
    if arity * arity > 2 * variables:  # under one row in e would be free of repeats: shuffle instead
        return np.argsort(rng.random((draws, variables)), axis=1)[:, :arity]
    return rng.integers(0, variables, (draws, arity))


def _with_unary(variables: int, states: int, pairs: Integers) -> FactorGraph:
    return FactorGraph(
        np.full(variables, states), {"unary": np.arange(variables)[:, None], "pair": pairs.reshape(-1, 2)}
    )
