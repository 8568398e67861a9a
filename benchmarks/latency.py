"""One small call: `BP(iterations=10)` on 10, 100 and 1000 variables, batch 1, against plain torch; with backward too.

    python benchmarks/latency.py [--quick]

Binary random graphs with twice as many pair factors as variables, float64, one thread. Beliefs and gradients are
compared before anything is timed; contenders take turns, the median counts. Every call is a whole one: potentials are
checked, a status is made. Last line of output: JSON with `vs_torch_10`, `vs_torch_100`, `vs_torch_10_backward`,
`vs_torch_100_backward` (how many times faster ours is), microseconds, and `python_calls` and `python_depth` of a call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import torch
from torch import Tensor

from common import option_parser, print_summary
from loopwise.graph import random_mrf
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from timing import medians
from torch_bp import TorchBP

SWEEPS = 10


def contenders(variables: int) -> tuple[dict[str, Callable[[], Tensor]], dict[str, Tensor]]:
    """Calls that return beliefs ``[variables, 2]``, and the tables that they read."""
    graph = random_mrf(variables, 2 * variables, unary=True, seed=0)
    generator = torch.Generator().manual_seed(0)
    tables = {
        group.name: 0.5 * torch.randn(group.count, *group.shape, generator=generator, dtype=torch.float64)
        for group in graph.groups
    }
    solver = BP(iterations=SWEEPS, tolerance=0, engine=Compiled(1))
    plain = {padded: TorchBP(graph, padded) for padded in (True, False)}

    def torch_call(padded: bool) -> Callable[[], Tensor]:
        return lambda: plain[padded].run(tables["pair"], tables["unary"][..., None], SWEEPS)[..., 0]

    return {
        "ours": lambda: solver(graph, tables).states.reshape(-1, 2),
        "torch, padded": torch_call(True),
        "torch, logarithms": torch_call(False),
    }, tables


def with_backward(call: Callable[[], Tensor], tables: dict[str, Tensor]) -> Callable[[], list[Tensor]]:
    """The same call and the gradient of a loss of its beliefs."""

    def run() -> list[Tensor]:
        for table in tables.values():
            table.grad = None
        call().square().sum().backward()
        return [table.grad for table in tables.values() if table.grad is not None]

    return run


def compare(name: str, found: Tensor, ours: Tensor) -> None:
    error = float((found - ours).abs().max())
    if not error <= 1e-9:
        raise SystemExit(f"{name} differs from ours by {error:.2g}: nothing was timed")


def python_calls(call: Callable[[], object]) -> tuple[int, int]:
    """Python functions that one call enters, and how deep they go."""
    count = depth = deepest = 0

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count, depth, deepest
        if event == "call":
            count, depth = count + 1, depth + 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count - 1, deepest - 1  # but for the lambda


def main() -> None:
    options = option_parser(__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    summary: dict[str, float] = {}
    for variables in (10, 100) if options.quick else (10, 100, 1000):
        calls, tables = contenders(variables)
        ours = calls["ours"]()
        for name, call in calls.items():
            compare(name, call(), ours)
        seconds = medians(calls, 100 if options.quick else 400)
        if variables == 10:
            summary["python_calls"], summary["python_depth"] = python_calls(calls["ours"])
        for table in tables.values():
            table.requires_grad_()
        differentiated = {name: with_backward(call, tables) for name, call in calls.items()}
        gradients = [gradient.clone() for gradient in differentiated["ours"]()]
        for name, run in differentiated.items():
            for found, gradient in zip(run(), gradients, strict=True):
                compare(f"the gradient of {name}", found, gradient)
        both = medians(differentiated, 100 if options.quick else 400)
        for suffix, times in (("", seconds), ("_backward", both)):
            peer = min(times["torch, padded"], times["torch, logarithms"])
            print(
                f"{variables:5d} variables{suffix.replace('_', ', with ')}: ours {1e6 * times['ours']:.0f} µs, "
                f"torch {1e6 * peer:.0f} µs: {peer / times['ours']:.2f}"
            )
            summary[f"vs_torch_{variables}{suffix}"] = peer / times["ours"]
            summary[f"microseconds_{variables}{suffix}"] = 1e6 * times["ours"]
    print_summary(summary)


if __name__ == "__main__":
    main()
