"""Tables that fit come back as tensors; others are refused by group, factor, variables and cell."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from loopwise.graph import FactorGraph, chain
from loopwise.potentials.checks import alike, checked_tables

GRAPH = FactorGraph([2, 3, 2, 2], {"pair": [[0, 1], [2, 1]], "one": [[3]]})


def tables(**changed: object) -> dict[str, object]:
    return {"pair": torch.zeros(2, 2, 3), "one": torch.zeros(1, 2)} | changed


@pytest.mark.parametrize(
    ("given", "shape", "batch"),
    [
        (torch.zeros(2, 2, 3), (2, 2, 3), ()),
        (torch.zeros(1, 2, 3), (1, 2, 3), ()),
        (torch.zeros(2, 3), (1, 2, 3), ()),
        (torch.zeros(5, 2, 2, 3), (5, 2, 2, 3), (5,)),
        (torch.zeros(4, 1, 1, 2, 3), (4, 1, 1, 2, 3), (4, 1)),
        (torch.zeros(0, 2, 2, 3), (0, 2, 2, 3), (0,)),
    ],
)
def test_shapes_that_fit(given: torch.Tensor, shape: tuple[int, ...], batch: tuple[int, ...]) -> None:
    checked, common = checked_tables(GRAPH, tables(pair=given))
    assert list(checked) == ["pair", "one"]
    assert tuple(checked["pair"].shape) == shape
    assert tuple(common) == batch


def test_batches_broadcast_between_groups() -> None:
    _, batch = checked_tables(GRAPH, tables(pair=torch.zeros(4, 1, 2, 2, 3), one=torch.zeros(5, 1, 2)))
    assert tuple(batch) == (4, 5)


def test_arrays_lists_and_modules_are_taken() -> None:
    class Net(nn.Module):
        def forward(self) -> dict[str, object]:
            return {"one": [[0.0, 1.0]], "pair": np.zeros((2, 2, 3), dtype=np.float32)}

    checked, _ = checked_tables(GRAPH, Net())
    assert list(checked) == ["pair", "one"]
    assert checked["one"].tolist() == [[0.0, 1.0]]


@pytest.mark.filterwarnings("error")
def test_arrays_that_torch_cannot_share_are_copied() -> None:
    values = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    for given in (np.broadcast_to(values, (2, 2, 3)), np.repeat(values, 2, axis=0)[::-1]):
        checked, _ = checked_tables(GRAPH, tables(pair=given))
        assert np.array_equal(checked["pair"].numpy(), given)


def test_gradients_are_kept() -> None:
    pair = torch.zeros(2, 3, requires_grad=True)
    checked, _ = checked_tables(GRAPH, tables(pair=pair))
    checked["pair"].sum().backward()
    assert pair.grad is not None


def test_minus_infinity_is_a_number_like_any_other() -> None:
    checked, _ = checked_tables(GRAPH, tables(pair=torch.full((2, 2, 3), -torch.inf)))
    assert torch.isneginf(checked["pair"]).all()


@pytest.mark.parametrize(
    ("potentials", "message"),
    [
        ({"pair": torch.zeros(2, 2, 3)}, r"no potentials for group 'one'; given are \['pair'\]"),
        (
            tables(other=torch.zeros(1)),
            r"potentials for unknown group 'other'; the graph has \['pair', 'one'\]",
        ),
        ([1.0, 2.0], "potentials must map group names to tables.*not list"),
        (None, "not NoneType"),
        (tables(pair=torch.zeros(2, 3, 2)), r"'pair' have shape \(2, 3, 2\); they must end in \(2, 2, 3\)"),
        (tables(pair=torch.zeros(3, 2, 3)), r"'pair' have shape \(3, 2, 3\); they must end in \(2, 2, 3\)"),
        (tables(pair=torch.zeros(3)), r"'pair' have shape \(3,\)"),
        (tables(pair=torch.zeros(())), r"'pair' have shape \(\)"),
        (tables(pair=torch.zeros(3, 2)), r"'pair' have shape \(3, 2\); they must end in \(2, 2, 3\)"),
        (tables(pair=torch.zeros(0, 2, 3)), r"'pair' have shape \(0, 2, 3\)"),
        (
            tables(pair=torch.zeros(2, 2, 3, dtype=torch.int64)),
            "'pair' must be floating point, not torch.int64",
        ),
        (tables(pair=[[0.0, 1.0], [2.0]]), "potentials of group 'pair' are no array of numbers"),
        (tables(pair="words"), "potentials of group 'pair' are no array of numbers"),
        (
            tables(pair=torch.zeros(4, 2, 2, 3), one=torch.zeros(5, 1, 2)),
            r"do not broadcast: pair \(4,\), one \(5,\)",
        ),
    ],
)
def test_refuses_and_names_the_group(potentials: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_tables(GRAPH, potentials)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(("batch", "example"), [((), ""), ((3,), " in example 2"), ((2, 3), r" in example \(1, 2\)")])
def test_a_bad_cell_is_named(bad: float, batch: tuple[int, ...], example: str) -> None:
    pair = torch.zeros(*batch, 2, 2, 3)
    pair[(*(size - 1 for size in batch), 1, 0, 2)] = bad
    pair[..., 0, 0, 0] = -torch.inf  # allowed, and no cover for the bad one
    message = (
        rf"factor 1 of group 'pair' \(variables \[2, 1\]\) at \[0, 2\]{example} is {bad}; .* number between .* or -inf"
    )
    with pytest.raises(ValueError, match=message):
        checked_tables(GRAPH, tables(pair=pair))


def test_constants_have_no_axes() -> None:
    graph = FactorGraph([2], {"constant": np.zeros((3, 0), dtype=np.int64)})
    for given, shape in [(torch.zeros(3), (3,)), (torch.tensor(1.0), (1,)), (torch.zeros(5, 3), (5, 3))]:
        checked, _ = checked_tables(graph, {"constant": given})
        assert tuple(checked["constant"].shape) == shape
    with pytest.raises(ValueError, match=r"factor 1 of group 'constant' \(variables \[\]\) at \[\] is nan"):
        checked_tables(graph, {"constant": torch.tensor([0.0, torch.nan, 0.0])})


def test_a_group_without_factors_takes_any_empty_table() -> None:
    graph = FactorGraph([2, 3], {"one": [[0]], "pair": np.zeros((0, 2), dtype=np.int64)})
    for given in (torch.zeros(0, 2, 3), torch.zeros(0, 1, 1)):
        checked, batch = checked_tables(graph, {"one": torch.zeros(4, 1, 2), "pair": given})
        assert checked["pair"].numel() == 0
        assert tuple(batch) == (4,)
    assert tuple(checked_tables(chain(1), {"unary": torch.zeros(1, 2), "pair": torch.zeros(2, 2)})[1]) == ()


def test_one_type_and_one_device() -> None:
    """Types are widened to one that inference computes in; devices are not changed behind anybody's back."""
    half, single, double = (torch.ones(2, dtype=kind) for kind in (torch.bfloat16, torch.float32, torch.float64))
    for given, wide in ((half, torch.float32), (single, torch.float32), (double, torch.float64)):
        found, own = alike({"a": given, "b": half}, {"c": (None, single)})
        assert found["a"].dtype == found["b"].dtype == own["c"][1].dtype == wide
        assert own["c"][0] is None and found["b"].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="must be on one device: a on cpu, b on meta"):
        alike({"a": single, "b": single.to("meta")}, {})
