"""The models of the page on templates, against enumeration: marginals, likelihoods and gradients; and they learn."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from oracles.template_cases import enumerated, likelihood

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def small(name: str) -> tuple[lw.Template, list[Any]]:
    """The template with random weights, and examples that can be enumerated."""
    module = example(name)
    if name == "skip_chain":
        template, data = module.SkipChain(), [
            (["Mr", "Paris", "met", "Paris"], [0, 1, 0, 1]),
            (["in", "Paris", "Mr", "Jordan", "Paris", "Jordan"], [0, 2, 0, 1, 2, -1]),
            (["Austin"], [2]),
        ]  # fmt: skip
    elif name == "citations":
        template, data = module.Citations(), module.make_papers(12, seed=4)
        data = [one for one in data if len(one.topics) < 8][:4]
    else:
        template, data = module.TaggedTree(), [s for s in module.make_sentences(30, seed=2) if len(s[0]) < 4][:4]
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weights in template.parameters():
            weights.copy_(0.7 * torch.randn(weights.shape, generator=generator, dtype=torch.float64))
    assert len({len(lw.TemplateExamples.of(template, [one]).values[0]) for one in data}) > 1
    return template, data


NAMES = ("skip_chain", "citations", "tagged_trees")


@pytest.mark.parametrize("name", NAMES)
def test_marginals_likelihood_and_gradient_by_enumeration(name: str) -> None:
    template, data = small(name)
    system = lw.System(template, lw.Exact())
    for one, marginals in zip(data, system.predict_marginals(data), strict=True):
        for row, wanted in zip(marginals, enumerated(template, one).variables, strict=True):
            assert np.allclose(row[: len(wanted)], wanted, atol=1e-12)
    loss = lw.learn.risk(system, data, lw.loss.SurrogateLikelihood())
    assert float(loss.detach()) == pytest.approx(np.mean([likelihood(template, one) for one in data]), abs=1e-10)
    loss.backward()  # type: ignore[no-untyped-call]
    generator = torch.Generator().manual_seed(6)
    along = [torch.randn(weights.shape, generator=generator, dtype=torch.float64) for weights in template.parameters()]
    slope = sum(float((w.grad * d).sum()) for w, d in zip(template.parameters(), along, strict=True))  # type: ignore[operator]
    sides = []
    for step in (1e-5, -2e-5):  # to one side, then to the other
        with torch.no_grad():
            for weights, direction in zip(template.parameters(), along, strict=True):
                weights.add_(step * direction)
        sides.append(np.mean([likelihood(template, one) for one in data]))
    assert slope == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_its_own_inference_comes_close(name: str) -> None:
    """Belief propagation, which these models are trained through, against enumeration."""
    template, data = small(name)
    with torch.no_grad():
        for weights in template.parameters():
            weights.mul_(0.3)
    found = lw.System(template, lw.BP(iterations=10, tolerance=0)).predict_marginals(data)
    for one, marginals in zip(data, found, strict=True):
        for row, wanted in zip(marginals, enumerated(template, one).variables, strict=True):
            assert np.allclose(row[: len(wanted)], wanted, atol=0.03)


def test_links_tell_what_a_chain_cannot() -> None:
    module = example("skip_chain")
    train, test = module.make_documents(30, seed=0), module.make_documents(30, seed=1)
    found = []
    for links in (False, True):
        system = lw.System(module.SkipChain(links), lw.BP(iterations=4, tolerance=0), lw.decode.SoftArgmax(0.5))
        lw.fit(system, train, lw.loss.L1(), optimizer=lambda p: torch.optim.Adam(p, lr=0.2), epochs=10,
               batch=lw.learn.TotalSize(2000), progress=False)  # fmt: skip
        found.append(lw.evaluate(system, test, lw.metric.Accuracy()))
    assert found[0] < 0.9 < 0.97 < found[1]
