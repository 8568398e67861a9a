"""Systems with a policy in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.formats.errors import FormatError


def stopping_system() -> lw.System:
    policy = budget.Policy((budget.Bias(), budget.LargestChange(smooth=3.0), budget.Confident(0.8)))
    with torch.no_grad():
        policy.weights.copy_(torch.tensor([-1.5, -1.0, 0.3]))
        policy.centre.copy_(torch.tensor([0.0, 0.1, 0.2]))
    potentials = lw.TablePotentials.random(lw.graph.complete(5), seed=0)
    return lw.System(potentials, budget.Stopping(lw.BP(iterations=9), policy), lw.decode.Max(), roles=[0, 1, 1, 2, 1])


def test_a_system_with_its_policy_comes_back(tmp_path: Path) -> None:
    system, path = stopping_system(), tmp_path / "fast.loopwise"
    budget.save(system, path)
    again = budget.load(path)
    mine, theirs = system.beliefs({0: 1}), again.beliefs({0: 1})
    assert torch.equal(mine.states, theirs.states) and torch.equal(mine.status.sweeps, theirs.status.sweeps)
    assert again.inference.policy.features == system.inference.policy.features  # type: ignore[union-attr]
    assert again.roles is not None and again.roles.tolist() == [0, 1, 1, 2, 1]
    plain = lw.System.load(path)  # without the policy
    assert isinstance(plain.inference, lw.BP) and plain.inference.iterations == 9


def test_a_plain_system_is_saved_as_ever(tmp_path: Path) -> None:
    system = lw.System(lw.TablePotentials(lw.chain(3)), lw.BP())
    budget.save(system, tmp_path / "plain.loopwise")
    assert isinstance(budget.load(tmp_path / "plain.loopwise").inference, lw.BP)


@dataclass(frozen=True)
class Mine(budget.Feature):
    def __call__(self, course: budget.Course) -> torch.Tensor:
        return course.every(course.trace.new_zeros(()))


def test_mistakes(tmp_path: Path) -> None:
    own = lw.System(lw.TablePotentials(lw.chain(3)), budget.Stopping(lw.BP(), budget.Policy((Mine(),))))
    with pytest.raises(ValueError, match="feature of class Mine cannot be saved"):
        budget.save(own, tmp_path / "own.loopwise")
    assert not (tmp_path / "own.loopwise").exists()
    from loopwise.learn.files.container import read_container, write_container

    path = tmp_path / "damaged.loopwise"
    budget.save(stopping_system(), path)
    tensors, description = read_container(path)
    del tensors["policy.weights"]
    write_container(path, tensors, {key: description[key] for key in description})
    with pytest.raises(FormatError, match=r"policy in the file is damaged: the tensor 'policy\.weights'"):
        budget.load(path)


def gated_systems() -> dict[str, lw.System]:
    """What ``send_only`` and ``deploy`` make: messages left out, also with a policy; factors by evidence, or gone."""
    graph = lw.grid(3, 3)
    potentials = lw.TablePotentials.random(graph, seed=0)
    gates = budget.MessageGates(graph, 3)
    policy = budget.Policy((budget.Bias(), budget.LargestChange(smooth=3.0)))
    gate = budget.EvidenceGate(graph)
    rng = np.random.default_rng(0)
    with torch.no_grad():
        gates.logits[torch.from_numpy(rng.random(gates.logits.shape) < 0.4)] = -1.0
        policy.weights.copy_(torch.tensor([1.0, -4.0]))
        gate.bias[0][::2] = -1.0
        gate.weight[0].copy_(torch.from_numpy(rng.normal(0, 2, len(gate.weight[0]))))
    method = lw.BP(iterations=3, tolerance=0, weights=gates)
    tables = potentials().copy()
    tables["pair"] = tables["pair"].detach().clone()
    tables["pair"][::3] = 0.0
    weak = budget.Gated(lw.TablePotentials(graph, tables), budget.Gate(strength=budget.Raw()))
    return {
        "chosen": budget.send_only(lw.System(potentials, method, lw.decode.Max(), roles=[0, 1, 2] * 3)),
        "stopped": budget.send_only(lw.System(potentials, budget.Stopping(method, policy))),
        "by evidence": budget.deploy(lw.System(potentials, budget.ByEvidence(lw.BP(iterations=3, tolerance=0), gate))),
        "all": budget.deploy(lw.System(weak, budget.ByEvidence(budget.Stopping(method, policy), gate))),
    }


@pytest.mark.parametrize("name", ["chosen", "stopped", "by evidence", "all"])
def test_messages_and_factors_that_are_left_out_stay_out(name: str, tmp_path: Path) -> None:
    """Answers, messages and costs are equal to the last bit; files are, too, and other readers say whose they are."""
    system, path, again = gated_systems()[name], tmp_path / "a.loopwise", tmp_path / "b.loopwise"
    budget.save(system, path, card={"licence": "Apache-2.0"})
    loaded = budget.load(path)
    values = np.random.default_rng(1).integers(-1, 2, (20, 9))
    mine, theirs = system.beliefs(values), loaded.beliefs(values)
    assert torch.equal(mine.states, theirs.states) and mine.status.messages == theirs.status.messages
    assert torch.equal(mine.status.sweeps, theirs.status.sweeps) and mine.status.messages < 20 * 3 * 24
    examples = lw.Examples.of(system.graph, values, [lw.Role.INPUT] * 5 + [lw.Role.OUTPUT] * 4)
    assert budget.spend(system, examples).cost == budget.spend(loaded, examples).cost
    assert (system.roles is None) == (loaded.roles is None)
    budget.save(loaded, again)
    assert again.read_bytes() == path.read_bytes()
    assert lw.learn.model_card(path).what == "Gated system"
    with pytest.raises(FormatError, match=r"holds a Gated system, not a System; use lw\.budget\.load"):
        lw.System.load(path)
    with pytest.raises(ValueError, match=r"inference is of class \w+ is saved by lw.budget.save"):
        system.save(path)


def test_gated_systems_that_cannot_be(tmp_path: Path) -> None:
    from loopwise.learn.files.container import read_container, write_container

    graph, path = lw.grid(3, 3), tmp_path / "a.loopwise"
    trained = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, weights=budget.MessageGates(graph, 3)))
    with pytest.raises(ValueError, match=r"class MessageGates is saved by lw\.budget\.save, once send_only"):
        budget.save(trained, path)
    budget.save(gated_systems()["all"], path)
    tensors, description = read_container(path)
    for name, spoilt, words in (
        ("gated.sent", tensors["gated.sent"].long(), "must hold truth values"),
        ("gated.sent", tensors["gated.sent"][:, 1:], "of shape"),
        ("gated.0.near", tensors["gated.0.near"] + 9, "factor or variable that there is not"),
        ("gated.0.bias", tensors["gated.0.bias"] * np.nan, "gated.0.bias"),
    ):
        write_container(path, {**tensors, name: spoilt}, description)
        with pytest.raises(FormatError, match=words):
            budget.load(path)
