"""Evidence: roles and values in, clamped values out, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph import FREE, Evidence, FactorGraph, Role
from loopwise.graph.evidence import clamped_values

GRAPH = FactorGraph([2, 3, 4], {"pair": [[0, 1]]})


def test_roles_choose_what_is_clamped() -> None:
    evidence = Evidence.of([1, 2, 3], [Role.INPUT, Role.OUTPUT, Role.HIDDEN])
    assert evidence.clamp().tolist() == [1, FREE, FREE]
    assert evidence.clamp((Role.INPUT, Role.OUTPUT)).tolist() == [1, 2, FREE]
    assert evidence.clamp(()).tolist() == [FREE, FREE, FREE]


def test_one_row_of_roles_serves_every_example() -> None:
    evidence = Evidence.of([[1, 2, 3], [0, 1, 2]], [Role.OUTPUT, Role.INPUT, Role.MISSING])
    assert evidence.roles.shape == (2, 3)
    assert evidence.clamp().tolist() == [[FREE, 2, FREE], [FREE, 1, FREE]]


def test_roles_may_differ_from_example_to_example() -> None:
    roles = [[Role.INPUT, Role.MISSING, Role.OUTPUT], [Role.MISSING, Role.INPUT, Role.OUTPUT]]
    evidence = Evidence.of([[1, 2, 3], [0, 1, 2]], roles)
    assert evidence.clamp().tolist() == [[1, FREE, FREE], [FREE, 1, FREE]]
    assert evidence.clamp((Role.OUTPUT,)).tolist() == [[FREE, FREE, 3], [FREE, FREE, 2]]


def test_values_of_hidden_and_missing_variables_are_ignored() -> None:
    evidence = Evidence.of([1, 99, -7], [Role.INPUT, Role.HIDDEN, Role.MISSING])
    assert clamped_values(GRAPH, evidence).tolist() == [1, FREE, FREE]


def test_an_input_without_a_value_is_refused_by_example() -> None:
    evidence = Evidence.of([[1, 2, 3], [0, -1, 2]], [Role.OUTPUT, Role.INPUT, Role.MISSING])
    with pytest.raises(ValueError, match=r"variable 1 \(example 1\) has the role INPUT but the value -1.*MISSING"):
        evidence.clamp()
    assert evidence.clamp((Role.OUTPUT,)).tolist() == [[1, FREE, FREE], [0, FREE, FREE]]


@pytest.mark.parametrize(
    ("values", "roles", "message"),
    [
        ([1, 2, 3], [0, 1, 9], "9 is not a role; roles are .*'INPUT', 'OUTPUT', 'HIDDEN', 'MISSING'"),
        ([1, 2, 3], [0, 1], r"roles of shape \(2,\) do not fit values of shape \(3,\)"),
        ([1, 2, 3], [[0] * 3] * 2, r"roles of shape \(2, 3\) do not fit values of shape \(3,\)"),
        ([1.0, 2.0, 3.0], [0, 0, 0], "evidence must hold integers, not float64"),
        ([1, 2, 3], [0.0, 0.5, 1.0], "roles must hold integers, not float64"),
    ],
)
def test_evidence_refuses(values: object, roles: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Evidence.of(values, roles)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [FREE, FREE, FREE]),
        ({}, [FREE, FREE, FREE]),
        ({2: 3, 0: 0}, [0, FREE, 3]),
        ({np.int32(1): np.int8(2)}, [FREE, 2, FREE]),
        ([1, -1, 3], [1, FREE, 3]),
        (np.array([[1, -1, 3], [0, 2, -1]], dtype=np.int8), [[1, FREE, 3], [0, 2, FREE]]),
        (torch.tensor([1, -1, 3]), [1, FREE, 3]),
    ],
)
def test_every_way_to_give_values(given: object, expected: object) -> None:
    values = clamped_values(GRAPH, given)  # type: ignore[arg-type]
    assert values.dtype == np.int64
    assert values.tolist() == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({3: 0}, "evidence names variable 3; the graph has variables 0 to 2"),
        ({-1: 0}, "evidence names variable -1"),
        ({1: 3}, "evidence gives variable 1 the value 3; it has values 0 to 2"),
        ({1: -2}, "evidence gives variable 1 the value -2"),
        ({1: -1}, "evidence gives variable 1 the value -1; leave it out to keep it free"),
        ({1: 0.7}, "evidence must map integers to integers, not 1 to 0.7"),
        ({"x": 0}, "evidence must map integers to integers, not 'x' to 0"),
        ([0, 1, 4], "evidence gives variable 2 the value 4; it has values 0 to 3"),
        (
            [[0, 0, 0], [0, 3, 0]],
            r"evidence gives variable 1 \(example 1\) the value 3; it has values 0 to 2",
        ),
        ([[[0, 0, 0], [0, 0, 9]]], r"evidence gives variable 2 \(example \(0, 1\)\) the value 9"),
        ([0.0, 1.0, 2.0], "evidence must hold integers, not float64"),
        ([np.nan, 1, 2], "evidence must hold integers, not float64"),
        ([True, False, True], "evidence must hold integers, not bool"),
        ([0, 1], r"evidence of shape \(2,\) does not fit the graph.* each of 3 variables"),
        (0, r"evidence of shape \(\) does not fit the graph"),
        (Evidence.of([0, 3, 0], [Role.INPUT] * 3), "evidence gives variable 1 the value 3"),
        (Evidence.of([0, 1], [Role.INPUT] * 2), "does not fit the graph"),
    ],
)
def test_bad_values_are_refused_by_name(given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clamped_values(GRAPH, given)  # type: ignore[arg-type]


def test_evidence_is_copied() -> None:
    given = np.array([1, -1, 3])
    values = clamped_values(GRAPH, given)
    given[0] = 0
    assert values[0] == 1


def test_a_graph_without_variables_takes_empty_evidence() -> None:
    assert clamped_values(FactorGraph([], {}), []).shape == (0,)
    with pytest.raises(ValueError, match="evidence names variable 0; the graph has no variables"):
        clamped_values(FactorGraph([], {}), {0: 0})
