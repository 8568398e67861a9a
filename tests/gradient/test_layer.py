"""Inference as a layer of a network: modules, precisions, batch dimensions, a documented example that learns."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

import loopwise as lw
from oracles.gradient_cases import gap, gradients, marginals_only, normal, tables_of

ROOT = Path(__file__).resolve().parents[2]


class Layer(nn.Module):
    """A linear map to the unary potentials of a grid, pairs as parameters, marginals out."""

    def __init__(self, engine: object, dtype: torch.dtype, states: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.graph = lw.grid(2, 3, states=states)
        self.linear = nn.Linear(4, 6 * states)
        self.pair = nn.Parameter(0.5 * torch.randn(7, states, states))
        self.inference = lw.BP(iterations=3, tolerance=0, engine=engine)
        self.to(dtype)

    def forward(self, inputs):
        unary = self.linear(inputs).unflatten(-1, (6, -1))
        return self.inference(self.graph, {"unary": unary, "pair": self.pair}).variables


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("batch", [(), (5,), (3, 4), (2, 1, 3)], ids=str)
def test_shapes_precision_and_gradients_of_a_module(engine, dtype, batch) -> None:
    layer = Layer(engine, dtype)
    inputs = normal((*batch, 4), 1, dtype).requires_grad_()
    marginals = layer(inputs)
    assert marginals.shape == (*batch, 6, 3)
    assert marginals.dtype == dtype
    torch.testing.assert_close(marginals.sum(-1), torch.ones(*batch, 6, dtype=dtype))
    (normal(marginals.shape, 2, dtype) * marginals).sum().backward()
    for leaf in (inputs, *layer.parameters()):
        assert leaf.grad is not None
        assert leaf.grad.dtype == dtype
        assert leaf.grad.shape == leaf.shape
        assert bool(torch.isfinite(leaf.grad).all())
        assert float(leaf.grad.abs().max()) > 0


@pytest.mark.parametrize("batch", [(), (9,)], ids=str)
def test_single_precision_is_double_precision_but_for_rounding(engine, batch) -> None:
    graph = lw.grid(2, 3, states=3)
    method = lw.BP(iterations=4, tolerance=0, damping=0.1, engine=engine)
    double, single = (
        gradients(method, graph, tables_of(graph, *batch, shared=("pair",), dtype=dtype), marginals_only)
        for dtype in (torch.float64, torch.float32)
    )
    assert 1e-9 < gap({name: part.double() for name, part in single.items()}, double) < 2e-5


def test_examples_of_a_batch_do_not_mix(engine) -> None:
    """The gradient of one example's loss with respect to another's inputs is 0, and its own is that of a single run."""
    layer = Layer(engine, torch.float64)
    inputs = normal((3, 4, 4), 1).requires_grad_()
    weights = normal((6, 3), 2)
    (found,) = torch.autograd.grad((layer(inputs)[1, 2] * weights).sum(), inputs)
    alone = inputs[1, 2].detach().requires_grad_()
    (expected,) = torch.autograd.grad((layer(alone) * weights).sum(), alone)
    torch.testing.assert_close(found[1, 2], expected, rtol=1e-12, atol=1e-14)
    found[1, 2] = 0
    assert (found == 0).all()


def test_gradcheck_of_a_module(literal_sizes: range) -> None:
    """In kernels for three states."""
    assert 3 in literal_sizes
    layer = Layer(lw.inference.Compiled(), torch.float64)
    assert torch.autograd.gradcheck(layer, normal((2, 4), 1).requires_grad_(), fast_mode=True)


def test_no_gradient_is_kept_where_none_is_wanted(engine) -> None:
    layer = Layer(engine, torch.float64)
    with torch.no_grad():
        assert not layer(normal((4,), 1)).requires_grad
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    assert not layer(normal((4,), 1)).requires_grad


def test_a_module_moves_and_saves_like_any_other(tmp_path) -> None:
    layer = Layer(lw.inference.Reference(), torch.float64)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = Layer(lw.inference.Compiled(), torch.float64)
    with torch.no_grad():
        other.pair.zero_()
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    inputs = normal((2, 4), 1)
    torch.testing.assert_close(other(inputs), layer(inputs), rtol=0, atol=1e-12)


def test_the_convolutional_example_learns() -> None:
    specification = importlib.util.spec_from_file_location("conv_grid", ROOT / "examples" / "conv_grid.py")
    assert specification is not None
    assert specification.loader is not None
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    before, after = example.train(steps=25, size=8, noise=0.7)
    assert after < 0.5 * before
