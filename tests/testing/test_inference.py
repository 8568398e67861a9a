"""The contract of inference methods: kept by ours, and told where it is broken."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

import loopwise as lw
from loopwise.inference.base import Inference, Problem
from loopwise.testing import check_inference

REFERENCE = lw.inference.Reference()


@dataclass(frozen=True)
class Twisted(Inference):
    """Exact inference with one promise broken."""

    promise: str = ""

    def run(self, problem: Problem) -> lw.Beliefs:
        other = {name: -table for name, table in problem.tables.items()}
        numbered = self.promise == "renaming" and int(problem.graph.cardinalities[1]) == 3
        right = lw.Exact().run(replace(problem, tables=other) if self.promise == "exact" or numbered else problem)
        states = right.states.clone()
        if self.promise == "distribution":
            states[..., 0] += 0.1
        if self.promise == "consistency":
            states[..., :2] = 0.5  # of variable 0, which has 2 values
        if self.promise == "batch" and states.ndim == 2:
            states = states.flip(0)
        if self.promise == "evidence" and problem.graph.variables == 4:  # one of the tree's 5 was sliced away
            states = states.flip(-1)
        status = replace(right.status, exact=self.promise in ("", "exact"))
        return lw.Beliefs(problem.graph, states, right.factor, lambda: right.log_partition, status)


@pytest.mark.parametrize(
    "method",
    [lw.Exact(), lw.BP(tolerance=1e-9, engine=REFERENCE), lw.TRW(rho=0.5, tolerance=1e-9, engine=REFERENCE), Twisted()],
    ids=["exact", "bp", "trw", "own"],
)
def test_methods_keep_their_promises(method: Inference) -> None:
    check_inference(method)


@pytest.mark.parametrize(
    "promise, words",
    [
        ("distribution", "variable 0 is no distribution"),
        ("consistency", "disagree about the variable's marginal"),
        ("exact", "what the status calls exact"),
        ("renaming", "variables renamed"),
        ("evidence", "is no distribution"),
        ("batch", "of a batch against the example alone"),
    ],
)
def test_broken_promises_are_told(promise: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_inference(Twisted(promise))
