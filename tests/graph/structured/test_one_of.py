"""Exactly one and at most one, against their tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph.structured.at_most_one import AtMostOne
from loopwise.graph.structured.exactly_one import ExactlyOne
from loopwise.graph.structured.one_of import OneOf, log_sum_of_others
from loopwise.notices import ImpossibleError
from loopwise.testing import check_factor

kinds = pytest.mark.parametrize("kind", [ExactlyOne, AtMostOne])


@kinds
@pytest.mark.parametrize("variables", [1, 2, 5])
def test_the_shipped_contract(kind: type[OneOf], variables: int) -> None:
    on = np.indices((2,) * variables).reshape(variables, -1).sum(0)
    allowed = on == 1 if kind is ExactlyOne else on <= 1
    check_factor(kind(variables), table=torch.tensor(np.where(allowed, 0.0, -np.inf)))


@kinds
def test_differentiable_to_any_order(kind: type[OneOf]) -> None:
    incoming = torch.randn(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(kind(4).log_partition, incoming)
    assert torch.autograd.gradgradcheck(kind(4).messages, incoming)


@kinds
def test_two_that_must_be_on(kind: type[OneOf]) -> None:
    incoming = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, 0.0, 0.0], dtype=torch.float64)
    factor = kind(3)
    assert float(factor.log_partition(incoming)) == -np.inf
    for call in (factor.messages, factor.argmax):
        with pytest.raises(ImpossibleError, match=f"{kind.__name__} over 3 variables"):
            call(incoming)


def test_sums_of_others_lose_nothing() -> None:
    """The largest term is not subtracted from a sum that it swallows."""
    values = torch.tensor([900.0, -900.0, -901.0], dtype=torch.float64)
    found = log_sum_of_others(values)
    expected = [np.logaddexp(-900.0, -901.0), 900.0, 900.0]
    assert found.numpy() == pytest.approx(expected, abs=1e-12)
