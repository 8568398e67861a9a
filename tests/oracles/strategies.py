"""Random small models for hypothesis: everything a factor graph may be, small enough to enumerate."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from loopwise.graph import FactorGraph

Model = tuple[FactorGraph, dict[str, Tensor]]


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    variables: tuple[int, int] = (1, 6),
    most_factors: int = 8,
    largest_arity: int = 4,
    largest_cardinality: int = 4,
    trees: bool = False,
) -> FactorGraph:
    """Arity 0 to 4, mixed cardinalities with 1 among them, isolated variables, shared scopes, several groups.

    ``trees``: no cycle among the factors of arity 2 and more (so no shared scopes of those either).
    """
    cards = draw(st.lists(st.integers(1, largest_cardinality), min_size=variables[0], max_size=variables[1]))
    member = st.integers(0, len(cards) - 1) if cards else st.nothing()
    scope = st.lists(member, max_size=min(largest_arity, len(cards)), unique=True)
    labelled = draw(st.lists(st.tuples(st.sampled_from("ab"), scope), max_size=most_factors))
    component = list(range(len(cards)))
    rows: dict[str, list[list[int]]] = {}
    for label, members in labelled:
        touched = {component[variable] for variable in members}
        if trees and len(touched) < len(members):
            continue
        component = [min(touched) if mark in touched else mark for mark in component]
        shape = "x".join(str(cards[variable]) for variable in members) or "constant"
        rows.setdefault(f"{label} {shape}", []).append(members)
    scopes = {name: np.array(group, dtype=np.int64).reshape(len(group), len(group[0])) for name, group in rows.items()}
    return FactorGraph(np.array(cards, dtype=np.int64), scopes)


@st.composite
def models(
    draw: st.DrawFn,
    *,
    variables: tuple[int, int] = (1, 6),
    most_factors: int = 8,
    largest_arity: int = 4,
    largest_cardinality: int = 4,
    trees: bool = False,
    zeros: bool = False,
    scale: float = 1.0,
) -> Model:
    """A graph of :func:`graphs` and float64 log-potentials, normal with standard deviation ``scale``.

    ``zeros``: a quarter of the cells may be -inf; one configuration, drawn first, always stays possible.
    """
    graph = draw(
        graphs(
            variables=variables,
            most_factors=most_factors,
            largest_arity=largest_arity,
            largest_cardinality=largest_cardinality,
            trees=trees,
        )
    )
    share = draw(st.sampled_from([0.0, 0.25])) if zeros else 0.0
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    possible = rng.integers(0, graph.cardinalities)
    return graph, {name: torch.tensor(table) for name, table in _numbers(graph, rng, possible, share, scale)}


def _numbers(
    graph: FactorGraph, rng: np.random.Generator, possible: np.ndarray, share: float, scale: float
) -> list[tuple[str, np.ndarray]]:
    tables = []
    for group in graph.groups:
        table = scale * rng.normal(size=(group.count, *group.shape))
        zero = rng.random(table.shape) < share
        zero[(np.arange(group.count), *possible[group.scopes].T)] = False
        tables.append((group.name, np.where(zero, -np.inf, table)))
    return tables


@st.composite
def evidence_for(
    draw: st.DrawFn, graph: FactorGraph, batch: tuple[int, ...] = (), same_variables: bool = True
) -> np.ndarray:
    """Values ``[*batch, variables]``, -1 where free; the same variables observed in every example, or any."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.3, 0.6, 1.0]))
    values = rng.integers(0, graph.cardinalities, (*batch, graph.variables))
    observed = rng.random(graph.variables if same_variables else values.shape) < share
    return np.where(observed, values, -1)
