"""A table of named values gives numbers by name, and says which names there are."""

from __future__ import annotations

import pytest
import torch

from loopwise.inference.named import NamedTable

BATCH = torch.tensor([[0.75, 0.25], [0.4, 0.6]])


def test_one_example_gives_numbers() -> None:
    table = NamedTable("flu", ("no", "yes"), BATCH[0])
    assert table["yes"] == 0.25
    assert table.best == "no"
    assert table.to_dict() == {"no": 0.75, "yes": 0.25}


def test_a_batch_keeps_its_gradient() -> None:
    values = BATCH.clone().requires_grad_()
    table = NamedTable("flu", ("no", "yes"), values)
    table["yes"].sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[0, 1], [0, 1]]
    assert table.best == ["no", "yes"]


def test_an_unknown_value_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'flu' has no value 'maybe'.*no.*yes"):
        NamedTable("flu", ("no", "yes"), BATCH)["maybe"]


def test_long_tables_are_cut_when_printed() -> None:
    many = NamedTable("word", tuple(f"w{k}" for k in range(40)), torch.full((30, 40), 1 / 40))
    assert "... 40 values" in repr(many)
    assert repr(many).endswith("... 30 examples")
