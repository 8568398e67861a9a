"""The strength of tables, and fading them."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.budget.strength import Strength, spread_term
from oracles.budget_cases import model, random_table

STRENGTHS: list[Strength] = [budget.Raw(), budget.Centred(), budget.Interaction()]


# --- Strength --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2, 2)])
def test_tables_are_split_without_loss(strength: Strength, shape: tuple[int, ...]) -> None:
    table = random_table(0, 4, 5, *shape)
    part, terms = strength.split(table, len(shape))
    whole = part
    for axis, term in enumerate(terms):
        whole = whole + spread_term(term, axis, len(shape))
    left = (table - whole).flatten(2)  # a constant at most
    torch.testing.assert_close(left, left[..., :1].expand(left.shape))
    assert bool(terms) == strength.leaves_terms
    torch.testing.assert_close(strength(table, len(shape)), part.flatten(2).square().sum(-1))


def test_raw_strength_is_the_sum_of_squares() -> None:
    table = random_table(1, 3, 2, 2)
    torch.testing.assert_close(budget.Raw()(table, 2), table.square().sum((1, 2)))


def test_what_changes_no_distribution_changes_no_interaction() -> None:
    table, row, column = random_table(2, 3, 2, 4), random_table(3, 3, 2, 1), random_table(4, 3, 1, 4)
    for strength, moved in ((budget.Centred(), table + 3.0), (budget.Interaction(), table + row + column)):
        torch.testing.assert_close(strength(table, 2), strength(moved, 2))
    assert not torch.allclose(budget.Raw()(table, 2), budget.Raw()(table + 3.0, 2))


def test_binary_interactions_by_hand() -> None:
    table = random_table(5, 6, 2, 2)
    size = (table[:, 0, 0] + table[:, 1, 1] - table[:, 0, 1] - table[:, 1, 0]) / 4
    torch.testing.assert_close(budget.Interaction()(table, 2), 4 * size.square())
    part, _ = budget.Interaction().split(table, 2)
    torch.testing.assert_close(part.abs(), size.abs()[:, None, None].expand(6, 2, 2))


@pytest.mark.parametrize("strength", STRENGTHS)
def test_fading_scales_the_part_that_counts(strength: Strength) -> None:
    graph, gated = model(strength=strength)
    with torch.no_grad():
        tables = gated.potentials()
        part, terms = strength.split(tables["pair"], 2)
        tau = budget.Published()(strength(tables["pair"], 2), 1.0)
        faded = gated.fade()
        torch.testing.assert_close(faded.present["pair"], tau)
        torch.testing.assert_close(faded.tables["pair"], part * tau[:, None, None])
        unary = tables["unary"].clone()
        for row, scope in enumerate(graph.group("pair").scopes):
            for term, variable in zip(terms, scope, strict=False):
                unary[variable] += term[row]
        torch.testing.assert_close(faded.tables["unary"], unary)
        assert set(faded.present) == {"pair"}


@pytest.mark.parametrize("strength", STRENGTHS)
def test_full_presence_changes_no_distribution(strength: Strength) -> None:
    scopes = {
        "first": [[2], [0], [2]],
        "second": [[1], [3], [0]],
        "pair": [[0, 1], [1, 2], [3, 0]],
        "three": [[0, 2, 3]],
    }
    graph = lw.FactorGraph([2] * 4, scopes)
    tables = {group.name: random_table(k, group.count, *group.shape) for k, group in enumerate(graph.groups)}
    faded = budget.Gate(strength=strength).fade(graph, tables, 1.0)
    part = {name: faded.present[name].reshape(-1, *[1] * graph.group(name).arity) for name in ("pair", "three")}
    full = {name: table / part[name] if name in part else table for name, table in faded.tables.items()}
    torch.testing.assert_close(lw.Exact()(graph, full).states, lw.Exact()(graph, tables).states)


def test_raw_fading_is_the_published_exponent() -> None:
    _, gated = model(strength=budget.Raw())
    with torch.no_grad():
        faded, tables = gated.fade(), gated.potentials()
        torch.testing.assert_close(faded.tables["pair"], faded.present["pair"][:, None, None] * tables["pair"])
