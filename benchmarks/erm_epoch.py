"""One epoch of empirical risk minimisation: ours against the same in plain torch, as fast as we could write it.

    python benchmarks/erm_epoch.py [--quick] [--batch 64]

1000 examples of a binary MRF with 200 variables and 1060 edges, a third of the variables observed, a third hidden; 30
sweeps of BP; the MSE of the outputs; stochastic meta-descent, whose every step takes a gradient and a Hessian-vector
product. The torch side slices evidence away, puts the batch innermost, and takes the faster of double backward and
`torch.func` (forward over reverse). Weights after a few steps are compared before anything is timed; one thread and
float64 on both sides, the same batches and the same updates. Peak memory is that of a process of its own over some
steps, less what it held before. Last line of output: JSON with `vs_torch`, `peak_mb`, `torch_peak_mb` and more.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from common import option_parser, print_summary
from loopwise.compare.memory import peak_rise
from loopwise.graph import FactorGraph, Role, random_mrf
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.sampling import thirds
from loopwise.learn.evaluate import risk
from loopwise.learn.optim.smd import SMD
from loopwise.learn.system import System
from loopwise.loss import MSE
from loopwise.potentials.tables import TablePotentials
from torch_bp import TorchBP

GAIN, META, MEMORY = 1.0, 100.0, 0.9
PEAK_STEPS = 3  # memory is the same in every step

Derivatives = Callable[[Tensor, Tensor, Examples], tuple[Tensor, Tensor]]  # gradient and Hessian-vector product


@dataclass
class Task:
    """The examples to pass over, and how."""

    examples: Examples
    sweeps: int
    batch: int
    seed: int = 0

    @property
    def graph(self) -> FactorGraph:
        return self.examples.graph

    def start(self) -> Tensor:
        return TablePotentials.random(self.graph, seed=self.seed, scale=0.5).tables[0].detach()

    def first(self, count: int) -> Task:
        return Task(self.examples[:count], self.sweeps, self.batch, self.seed)

    def ours(self, threads: int = 1) -> Tensor:
        """Weights after an epoch."""
        inference = BP(iterations=self.sweeps, tolerance=0, engine=Compiled(threads))
        system = System(TablePotentials(self.graph, {"pair": self.start()}), inference)
        optimizer = SMD(system.parameters(), gain=GAIN, meta=META, memory=MEMORY)
        loss = MSE()
        for part in self.examples.batches(self.batch):
            optimizer.step_on(lambda part=part: risk(system, part, loss))  # type: ignore[misc]
        return next(system.parameters()).detach()

    def torch(self, derivatives: Derivatives) -> Tensor:
        """The same with derivatives from elsewhere: the updates of SMD, written out."""
        theta, gain = self.start(), torch.full_like(self.start(), GAIN)
        trace = torch.zeros_like(theta)
        for part in self.examples.batches(self.batch):
            gradient, product = derivatives(theta, trace, part)
            gain = gain * (1.0 - META * trace * gradient).clamp(0.5, 5.0)
            theta = theta - gain * gradient
            trace = (MEMORY * trace - gain * (gradient + MEMORY * product)).clamp(-100.0, 100.0)
        return theta


@dataclass
class Plain:
    """The loss of a batch in plain torch: evidence sliced away, then BP on what is left."""

    graph: FactorGraph
    roles: np.ndarray
    sweeps: int

    def __post_init__(self) -> None:
        scopes = self.graph.group("pair").scopes
        observed = self.roles == Role.INPUT
        self.free = np.flatnonzero(~observed)
        number = np.full(self.graph.variables, -1)
        number[self.free] = np.arange(len(self.free))
        seen = observed[scopes]
        self.inner = torch.tensor(np.flatnonzero(~seen.any(1)))
        self.solver = TorchBP(FactorGraph(np.full(len(self.free), 2), {"pair": number[scopes[~seen.any(1)]]}), False)
        # Edges with one observed end: their tables, seen from the free end, become unary.
        self.border = [torch.tensor(np.flatnonzero(seen[:, 1 - side] & ~seen[:, side])) for side in (0, 1)]
        self.ends = [torch.tensor(number[scopes[edges.numpy(), side]]) for side, edges in enumerate(self.border)]
        self.givers = [scopes[edges.numpy(), 1 - side] for side, edges in enumerate(self.border)]
        self.outputs = torch.tensor(number[np.flatnonzero(self.roles == Role.OUTPUT)])

    def loss(self, theta: Tensor, values: Tensor, gold: Tensor) -> Tensor:
        """``values`` ``[variables, batch]``, ``gold`` ``[outputs, batch]``."""
        unary = theta.new_zeros(len(self.free), 2, values.shape[1])
        for side, (edges, ends, givers) in enumerate(zip(self.border, self.ends, self.givers, strict=True)):
            tables = theta[edges] if side == 1 else theta[edges].transpose(1, 2)  # [edges, observed end, free end]
            rows = torch.arange(len(edges))[:, None]
            unary = unary.index_add(0, ends, tables[rows, values[givers]].transpose(1, 2))
        beliefs = self.solver.run(theta[self.inner], unary, self.sweeps)
        return (beliefs[self.outputs, 1] - gold).square().mean()

    def arguments(self, part: Examples) -> tuple[Tensor, Tensor]:
        values = torch.from_numpy(np.ascontiguousarray(part.values.T))
        return values, values[torch.tensor(np.flatnonzero(self.roles == Role.OUTPUT))].double()

    def double_backward(self, theta: Tensor, vector: Tensor, part: Examples) -> tuple[Tensor, Tensor]:
        values, gold = self.arguments(part)
        leaf = theta.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self.loss(leaf, values, gold), leaf, create_graph=True)
        (product,) = torch.autograd.grad((gradient * vector).sum(), leaf)
        return gradient.detach(), product

    def forward_over_reverse(self, theta: Tensor, vector: Tensor, part: Examples) -> tuple[Tensor, Tensor]:
        values, gold = self.arguments(part)
        slope = torch.func.grad(lambda point: self.loss(point, values, gold))
        gradient, product = torch.func.jvp(slope, (theta,), (vector,))
        return gradient, product

    @cached_property
    def ways(self) -> dict[str, Derivatives]:
        return {"torch, double backward": self.double_backward, "torch.func": self.forward_over_reverse}


def make_task(quick: bool, batch: int) -> tuple[Task, Plain]:
    variables, edges, count, sweeps = (100, 460, 256, 15) if quick else (200, 1060, 1000, 30)
    graph = random_mrf(variables, edges, seed=0)
    roles = thirds(graph, 1)
    values = np.random.default_rng(2).integers(0, 2, (count, variables))  # speed does not depend on what they are
    return Task(Examples.of(graph, values, roles), sweeps, batch), Plain(graph, roles, sweeps)


def check(task: Task, plain: Plain) -> None:
    """Stops if weights differ after a few steps."""
    some = task.first(3 * task.batch)
    mine = some.ours()
    for name, way in plain.ways.items():
        error = float((some.torch(way) - mine).abs().max())
        if not error <= 1e-6:
            raise SystemExit(f"weights of {name} differ from ours by {error:.2g}: nothing was timed")


def seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def peak_megabytes(contender: str, quick: bool, batch: int) -> float:
    """How much the peak resident memory of a fresh process rises over some steps, everything compiled."""
    command = [sys.executable, __file__, "--measure", contender, "--batch", str(batch)]
    found = subprocess.run([*command, *(["--quick"] if quick else [])], capture_output=True, text=True, check=False)
    return float(found.stdout.split()[-1]) if found.returncode == 0 else float("nan")


def measure_peak(contender: str, quick: bool, batch: int) -> None:
    """The measured side of :func:`peak_megabytes`."""
    task, plain = make_task(quick, batch)
    small = Task(task.examples[:64], 2, 32)
    tiny = Plain(plain.graph, plain.roles, 2)
    some = task.first(PEAK_STEPS * batch)
    if contender == "ours":
        small.ours()
    else:
        small.torch(tiny.ways[contender])
    rise = peak_rise(some.ours if contender == "ours" else lambda: some.torch(plain.ways[contender]))
    print(float("nan") if rise is None else rise / 2**20)


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64, help="examples a step (default: %(default)s)")
    parser.add_argument("--measure", help="only print the peak memory of one contender")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure:
        measure_peak(options.measure, options.quick, options.batch)
        return
    task, plain = make_task(options.quick, options.batch)
    check(task, plain)
    repeats = 3
    ours = min(seconds(task.ours) for _ in range(repeats))
    threaded = min(seconds(lambda: task.ours(2)) for _ in range(repeats))
    trial = task.first(2 * task.batch)
    taken = {name: seconds(lambda way=way: trial.torch(way)) for name, way in plain.ways.items()}  # type: ignore[misc]
    for name, value in taken.items():
        print(f"{name}: {1e3 * value / 2:.0f} ms a step of {task.batch}", flush=True)
    best = min(taken, key=taken.__getitem__)
    theirs = min(seconds(lambda: task.torch(plain.ways[best])) for _ in range(1 if not options.quick else repeats))
    count = len(task.examples)
    print(f"an epoch of {count} examples: ours {ours:.2f} s (2 threads {threaded:.2f} s), {best} {theirs:.2f} s")
    memory = {name: peak_megabytes(name, options.quick, options.batch) for name in ("ours", best)}
    print(f"peak memory: ours {memory['ours']:.0f} MB, {best} {memory[best]:.0f} MB")
    print_summary(
        {
            "vs_torch": theirs / ours,
            "second_thread_gain": ours / threaded,
            "seconds": ours,
            "torch_seconds": theirs,
            "torch_way": best,
            "batch": options.batch,
            "peak_mb": memory["ours"],
            "torch_peak_mb": memory[best],
        }
    )


if __name__ == "__main__":
    main()
