"""Parameters inside of options are found by their paths, and are the same objects."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import loopwise as lw
from loopwise.learn.settings import Settings


def test_parameters_are_found_and_not_copied() -> None:
    damping, rho = nn.Parameter(torch.tensor(0.1)), nn.Parameter(torch.tensor([0.5]))
    method = lw.TRW(damping=damping, rho={"pair.of": rho})
    found = dict(Settings(inference=method).named_parameters())
    assert found.keys() == {"inference/damping", "inference/rho/pair%2Eof"}
    assert found["inference/damping"] is damping and found["inference/rho/pair%2Eof"] is rho


def test_plain_options_have_none() -> None:
    assert dict(Settings(inference=lw.BP(), decoder=lw.decode.Max()).named_parameters()) == {}


def test_tensors_that_nobody_could_train_are_refused() -> None:
    loose = torch.tensor(0.1, requires_grad=True) * 2
    with pytest.raises(ValueError, match=r"inference/damping is a tensor .* give it as torch\.nn\.Parameter"):
        Settings(inference=lw.BP(damping=loose))
