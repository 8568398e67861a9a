"""Our optimisers do what torch's do, and start without the tracer of torch.compile."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import loopwise as lw

OURS = {
    "SMD": lambda params: lw.optim.SMD(params, gain=0.1),
    "LBFGS": lw.optim.LBFGS,
    "AdaGradCOMID": lambda params: lw.optim.AdaGradCOMID(params, rate=0.1),
    "DenseAdam": lw.optim.DenseAdam,
}
RUN = """
import sys, torch
import loopwise as lw
graph = lw.chain(3)
examples = lw.Examples.of(graph, [[0, 1, 1], [1, 1, 0]], [lw.Role.OUTPUT] * 3)
for make in (None, lw.optim.SMD, lw.optim.LBFGS):
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=2, tolerance=0, engine=lw.inference.Reference()))
    lw.fit(system, examples, lw.loss.MSE(), optimizer=make, epochs=1, progress=False)
weights = torch.zeros(2, requires_grad=True)
optimizer = lw.optim.AdaGradCOMID([weights], rate=0.1)
optimizer.load_state_dict(optimizer.state_dict())
optimizer.zero_grad()
print("torch._dynamo" in sys.modules)
"""


def test_the_tracer_is_not_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == ["False"]


@pytest.mark.parametrize("name", OURS)
def test_groups_and_states_are_as_with_torch(name: str) -> None:
    first, second = (torch.zeros(2, requires_grad=True) for _ in range(2))
    made = OURS[name]([first])
    if name != "LBFGS":
        made.add_param_group({"params": [second]})
        assert [group["params"] for group in made.param_groups] == [[first], [second]]
        with pytest.raises(ValueError, match="appear in more than one parameter group"):
            made.add_param_group({"params": [first]})
    for group in made.param_groups:
        for param in group["params"]:
            param.grad = torch.ones(2)
    made.zero_grad()
    assert first.grad is None
    again = OURS[name]([first])
    if name != "LBFGS":
        again.add_param_group({"params": [second]})
    again.load_state_dict(made.state_dict())
    assert again.state_dict()["param_groups"] == made.state_dict()["param_groups"]


@pytest.mark.parametrize("options", [{}, {"amsgrad": True, "weight_decay": 0.1}, {"betas": (0.5, 0.9)}])
def test_adam_is_torchs_to_the_last_bit(options: dict[str, object]) -> None:
    torch.manual_seed(0)
    start, target = torch.randn(5, 3), torch.randn(5, 3)
    found = []
    for kind in (lw.optim.DenseAdam, torch.optim.Adam):
        weights = start.clone().requires_grad_()
        optimizer = kind([weights], lr=0.1, **options)  # type: ignore[arg-type]

        def loss(weights: torch.Tensor = weights, optimizer: torch.optim.Optimizer = optimizer) -> float:
            optimizer.zero_grad()
            value = (weights - target).pow(4).sum()
            value.backward()
            return float(value)

        values = [optimizer.step(loss) for _ in range(20)]  # type: ignore[arg-type]
        found.append((values, weights.detach()))
    assert found[0][0] == found[1][0] and torch.equal(found[0][1], found[1][1])
