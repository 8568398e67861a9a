"""Systems with a policy in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
