"""The reference engine on a device that is not the CPU: the same numbers, and nothing left behind on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise import inference
from loopwise.gradient import OneStep
from oracles.pretended_device import DEVICE, Pretended, brought_back, elsewhere, pretending

GRAPH = lw.FactorGraph.from_scopes([2, 3, 2], [(), (0,), (1,), (0, 1), (1, 2), (2, 0), (0, 1, 2)])
BINARY = np.arange(4)[:, None]
REFERENCE = inference.Reference()
Tables = dict[str, Any]


def bp(**options: Any) -> lw.BP:
    return lw.BP(**{"iterations": 3, "tolerance": 0, "engine": REFERENCE, **options})


METHODS: dict[str, Callable[[], inference.Inference]] = {
    "flooding": bp,
    "sequential": lambda: bp(schedule=lw.Sequential()),
    "residual": lambda: bp(schedule=inference.Residual()),
    "random sequential": lambda: bp(schedule=inference.RandomSequential(seed=0)),
    "damped": lambda: bp(damping=0.3),
    "cold": lambda: bp(temperature=0.5),
    "to a tolerance": lambda: bp(iterations=200, tolerance=1e-10),
    "trace": lambda: bp(trace=True),
    "TRW": lambda: lw.TRW(iterations=3, tolerance=0, engine=REFERENCE),
    "fixed point": lambda: bp(iterations=200, tolerance=1e-12, gradient=lw.FixedPoint()),
    "one step": lambda: bp(iterations=200, tolerance=1e-12, gradient=OneStep()),
    "perturbation": lambda: bp(iterations=200, tolerance=1e-12, gradient=lw.Perturbation()),
    "stop rule": lambda: bp(iterations=50, tolerance=None, stop=inference.Tolerance(1e-6)),
    "mean field": lambda: lw.MeanField(iterations=3, tolerance=0),
    "exact": lw.Exact,
}


def tables(graph: lw.FactorGraph, batch: tuple[int, ...] = (2,)) -> Tables:
    source = torch.Generator().manual_seed(1)
    return {
        group.name: 0.5 * torch.randn(*batch, group.count, *group.shape, generator=source, dtype=torch.float64)
        for group in graph.groups
    }


def back(result: Tensor) -> Tensor:
    return brought_back(result.detach()) if result.device == DEVICE else result.detach()


def compare(method: inference.Inference, graph: lw.FactorGraph, given: Tables, evidence: Any = None) -> None:
    """Beliefs, parts of them and gradients on both devices."""
    found: list[list[Tensor]] = []
    for move in (lambda tensor: tensor.clone(), elsewhere):
        with pretending():
            leaves = {name: move(table).requires_grad_() for name, table in given.items()}
            beliefs = method(graph, leaves, evidence)
            parts = [beliefs.states, beliefs.log_partition, *(beliefs.factor(group.name) for group in graph.groups)]
            parts += [beliefs.variables, *([] if beliefs.trace is None else [beliefs.trace])]
            value = beliefs.states.square().sum()
            assert all(part.device == value.device for part in parts)
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
            moved = [each for each in gradients if each is not None]
            assert moved and all(each.device == value.device for each in moved)
            found.append([back(each) for each in (*parts, *moved, beliefs.assignment)])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(theirs, mine, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    compare(METHODS[name](), GRAPH, tables(GRAPH))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["flooding", "TRW", "mean field", "exact"])
def test_evidence(name: str) -> None:
    compare(METHODS[name](), GRAPH, tables(GRAPH), np.array([[0, -1, -1], [-1, 2, -1]]))
    compare(METHODS[name](), GRAPH, tables(GRAPH), {1: 0})


@pytest.mark.filterwarnings("ignore")
def test_the_most_probable_configuration() -> None:
    for method in (bp(temperature=0, iterations=20), lw.Exact(temperature=0)):
        given = tables(GRAPH)
        with pretending():
            mine = method(GRAPH, {name: elsewhere(table) for name, table in given.items()})
            assert mine.assignment.device == mine.log_partition.device == DEVICE
            assert torch.equal(back(mine.assignment), method(GRAPH, given).assignment)


STRUCTURED = {
    "ExactlyOne": lw.ExactlyOne(4),
    "AtMostOne": lw.AtMostOne(4),
    "Or": lw.Or(4),
    "And": lw.And(4),
    "Implies": lw.Implies(4),
    "Parity": lw.Parity(4),
    "Count": lw.Count.at_most(4, 2),
    "ProjectiveTree": lw.ProjectiveTree(2),
    "Tree": lw.Tree(2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", STRUCTURED)
def test_structured_factors(kind: str) -> None:
    graph = lw.FactorGraph([2] * 4, {"unary": BINARY, "pair": [[0, 1]]}, {"s": [(STRUCTURED[kind], [0, 1, 2, 3])]})
    compare(bp(), graph, tables(graph))


GOALS: dict[str, Any] = {
    "MSE": lw.loss.MSE(),
    "F1": lw.loss.F1(positive=1),
    "Hamming": lw.loss.Hamming(),
    "L1": lw.loss.L1(),
    "clique": lw.loss.CliqueQuadratic(),
    "pooled": lw.loss.F1(positive=1, reduction=lw.loss.Pooled()),
}
DECODERS = {"soft": lw.decode.SoftArgmax(0.5), "identity": lw.decode.Identity(), "max": lw.decode.Max()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("goal", "decoder"), list(zip(GOALS, 2 * list(DECODERS), strict=True)))
def test_losses_and_decoders(goal: str, decoder: str) -> None:
    given, targets = tables(GRAPH), torch.tensor([[0, 1, 1], [1, -1, 0]])
    values = []
    for move in (lambda tensor: tensor.clone(), elsewhere):
        with pretending():
            leaves = {name: move(table).requires_grad_() for name, table in given.items()}
            value = GOALS[goal](DECODERS[decoder](bp()(GRAPH, leaves)), targets)
            assert value.device == next(iter(leaves.values())).device
            values.append(back(value))
    torch.testing.assert_close(values[1], values[0], rtol=1e-9, atol=1e-11)


LIKELIHOODS = {
    "surrogate": lw.loss.SurrogateLikelihood(),
    "pseudo": lw.loss.PseudoLikelihood(),
    "piecewise": lw.loss.Piecewise(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_likelihoods(name: str) -> None:
    given = tables(GRAPH, ())
    roles = [lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.OUTPUT]
    evidence = lw.Evidence(np.array([[0, 1, 1], [1, 2, 0]]), np.array([roles, roles]))
    values = []
    for move in (lambda tensor: tensor.clone(), elsewhere):
        with pretending():
            leaves = {key: move(table).requires_grad_() for key, table in given.items()}
            value = LIKELIHOODS[name].per_example(bp(), GRAPH, leaves, evidence).sum()
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
            values.append([back(each) for each in (value, *gradients) if each is not None])
    for mine, theirs in zip(*values, strict=True):
        torch.testing.assert_close(theirs, mine, rtol=1e-9, atol=1e-11)


def test_what_the_pretence_refuses() -> None:
    """As a GPU would."""
    with pretending():
        far, near = elsewhere(torch.ones(3)), torch.ones(3)
        with pytest.raises(RuntimeError, match="on two devices"):
            far + near
        with pytest.raises((RuntimeError, TypeError)):
            far.numpy()
        assert isinstance(far + 1, Pretended) and (far + torch.tensor(1.0)).device == DEVICE
        assert torch.tensor([1, 2], device=DEVICE).device == DEVICE and far.to("cpu").device.type == "cpu"
