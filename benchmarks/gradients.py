"""Forward and exact gradient through BP: ours against autograd through the best plain torch formulation.

    python benchmarks/gradients.py [--quick]

50 sweeps on the 128 x 128 grid with 5 states; 1000 evidence settings of random binary MRFs (50 variables, 200 edges;
200 variables, 1060 edges), 100 sweeps. The loss is the mean squared error of the beliefs against random labels.
Gradients are compared before anything is timed (of the largest task on 96 examples); one thread and float64 on both
sides. Autograd through the largest task at once keeps more than 20 GB, so plain torch gets it 250 examples at a time.
Peak memory is that of a process of its own over one forward and backward pass, less what it held before. Last line of
output: JSON with `vs_autograd`, `vs_autograd_batch`, `total_over_forward`, `recompute_over_forward`, `peak_mb`, ...
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from common import option_parser, print_summary
from loopwise.compare.memory import peak_rise
from loopwise.gradient.hvp import hvp
from loopwise.gradient.unroll import Checkpoints, Recompute, Store, Tape, Unroll
from loopwise.graph import FactorGraph, grid, random_mrf
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from timing import medians
from torch_bp import TorchBP

PART = 250  # examples at once where autograd would not fit into memory
TORCH_LIMIT = 2e7  # numbers of one sweep's unary shape times sweeps: about 10 GB of tape


@dataclass
class Task:
    """A graph, its tables (those with a gradient: all), labels, and how many sweeps."""

    name: str
    graph: FactorGraph
    pair: Tensor  # [factors, K, K]
    unary: Tensor  # [*batch, variables, K]
    labels: Tensor  # [*batch, variables]
    sweeps: int

    def loss(self, beliefs: Tensor) -> Tensor:
        """Mean squared error of beliefs ``[*batch, variables, K]``."""
        right = beliefs.gather(-1, self.labels[..., None])
        return (beliefs.square().sum(-1) - 2 * right[..., 0] + 1).mean()

    def first(self, examples: int) -> Task:
        """The same with the first examples only."""
        return replace(self, unary=self.unary[:examples], labels=self.labels[:examples])

    def ours(self, tape: Tape, threads: int = 1, gradient: bool = True) -> Callable[[], list[Tensor]]:
        solver = BP(iterations=self.sweeps, tolerance=0, engine=Compiled(threads), gradient=Unroll(tape))

        def run() -> list[Tensor]:
            tables = [self.pair.clone().requires_grad_(gradient), self.unary.clone().requires_grad_(gradient)]
            value = self.loss(solver(self.graph, {"pair": tables[0], "unary": tables[1]}).variables)
            return list(torch.autograd.grad(value, tables)) if gradient else [value]

        return run

    def hessian_vector(self) -> Callable[[], list[Tensor]]:
        solver = BP(iterations=self.sweeps, tolerance=0, engine=Compiled(1))
        pair = self.pair.clone().requires_grad_()
        direction = torch.randn(pair.shape, generator=torch.Generator().manual_seed(3), dtype=pair.dtype)
        tables = {"pair": pair, "unary": self.unary}
        return lambda: hvp(lambda: self.loss(solver(self.graph, tables).variables), [pair], [direction])

    def torch(self, padded: bool) -> Callable[[], list[Tensor]]:
        if self.unary.ndim == 3 and self.unary.numel() * self.sweeps > TORCH_LIMIT:
            return self._torch_in_parts(padded)
        solver = TorchBP(self.graph, padded)
        innermost = self.unary.reshape(-1, *self.unary.shape[-2:]).permute(1, 2, 0).contiguous()

        def run() -> list[Tensor]:
            tables = [self.pair.clone().requires_grad_(), innermost.clone().requires_grad_()]
            beliefs = solver.run(tables[0], tables[1], self.sweeps).permute(2, 0, 1)
            found = torch.autograd.grad(self.loss(beliefs.reshape(self.unary.shape)), tables)
            return [found[0], found[1].permute(2, 0, 1).reshape(self.unary.shape)]

        return run

    def _torch_in_parts(self, padded: bool) -> Callable[[], list[Tensor]]:
        """The same a few examples at a time, each part's gradients weighted by its share of the mean."""
        cuts = [slice(at, at + PART) for at in range(0, len(self.unary), PART)]
        parts = [replace(self, unary=self.unary[cut], labels=self.labels[cut]) for cut in cuts]
        runs = [(len(part.unary) / len(self.unary), part.torch(padded)) for part in parts]

        def run() -> list[Tensor]:
            pairs, unaries = [], []
            for share, gradients in runs:
                pair, unary = gradients()
                pairs.append(share * pair)
                unaries.append(share * unary)
            return [torch.stack(pairs).sum(0), torch.cat(unaries)]

        return run


def grid_task(quick: bool) -> Task:
    size, sweeps = (32, 10) if quick else (128, 50)
    graph, generator = grid(size, size, states=5), torch.Generator().manual_seed(0)
    pair = torch.randn(graph.group("pair").count, 5, 5, generator=generator, dtype=torch.float64)
    unary = torch.randn(graph.variables, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 5, (graph.variables,), generator=generator)
    return Task(f"grid {size} x {size}", graph, pair, unary, labels, sweeps)


def batch_task(variables: int, edges: int, quick: bool) -> Task:
    examples, sweeps = (160, 20) if quick else (1000, 100)
    graph, generator = random_mrf(variables, edges, unary=True, seed=0), torch.Generator().manual_seed(1)
    pair = torch.randn(edges, 2, 2, generator=generator, dtype=torch.float64)
    unary = 0.5 * torch.randn(examples, variables, 2, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 2, (examples, variables), generator=generator)
    return Task(f"{variables} variables, {edges} edges, {examples} examples", graph, pair, unary, labels, sweeps)


def check(task: Task, others: dict[str, Callable[[], list[Tensor]]]) -> None:
    """Stops if a contender's gradients are not ours."""
    mine = task.ours(Store())()
    for name, run in others.items():
        for a, b in zip(mine, run(), strict=True):
            error = float((a - b).abs().max() / a.abs().max())
            if not error <= 1e-6:
                raise SystemExit(f"{task.name}: gradients of {name} differ from ours by {error:.2g}: nothing was timed")


def peak_megabytes(contender: str, quick: bool) -> float:
    """How much the peak resident memory of a fresh process rises over one forward and backward pass of the large batch,
    everything compiled."""
    command = [sys.executable, __file__, "--measure", contender, *(["--quick"] if quick else [])]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(found.stdout.split()[-1]) if found.returncode == 0 else float("nan")


def measure_peak(contender: str, quick: bool) -> None:
    """The measured side of :func:`peak_megabytes`."""
    small, task = batch_task(200, 1060, True), batch_task(200, 1060, quick)
    run = {"ours": lambda task: task.ours(Recompute()), "torch": lambda task: task.torch(False)}[contender]
    run(small.first(64))()
    rise = peak_rise(run(task))
    print(float("nan") if rise is None else rise / 2**20)


def time_task(task: Task, plain: dict[str, bool], repeats: int) -> dict[str, float]:
    stored = Store() if task.unary.numel() * task.sweeps < 2e7 else Checkpoints()  # gigabytes otherwise
    contenders: dict[str, Callable[[], object]] = {
        "ours, forward only": task.ours(Store(), gradient=False),
        "ours, stored": task.ours(stored),
        "ours, recomputed": task.ours(Recompute()),
        "ours, checkpoints": task.ours(Checkpoints()),
        "ours, 2 threads": task.ours(Recompute(), threads=2),
        "ours, Hessian-vector": task.hessian_vector(),
    }
    checked = task if task.unary.ndim == 2 or len(task.unary) * task.graph.variables <= 50_000 else task.first(96)
    check(checked, {name: checked.torch(padded) for name, padded in plain.items()})
    rivals = {name: task.torch(padded) for name, padded in plain.items()}
    seconds = medians({**contenders, **rivals}, repeats)
    for name, value in seconds.items():
        print(f"{task.name}: {name:22s} {1e3 * value:9.1f} ms", flush=True)
    seconds["torch"] = min(seconds[name] for name in plain)
    return seconds


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--measure", choices=["ours", "torch"], help="only print the peak memory of one contender")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure:
        measure_peak(options.measure, options.quick)
        return
    repeats = 3 if options.quick else 5
    both = {"torch logs": False, "torch padded": True}
    whole = time_task(grid_task(options.quick), both, repeats)
    small = time_task(batch_task(50, 200, options.quick), both, repeats)
    large = time_task(batch_task(200, 1060, options.quick), {"torch logs": False}, 1 if options.quick else 3)
    memory = {name: peak_megabytes(name, options.quick) for name in ("ours", "torch")}
    print(f"peak memory of the large batch: {memory['ours']:.0f} MB, torch {memory['torch']:.0f} MB ({PART} at a time)")
    best = min(whole["ours, stored"], whole["ours, recomputed"])
    print_summary(
        {
            "vs_autograd": whole["torch"] / best,
            "vs_autograd_batch": large["torch"] / large["ours, recomputed"],
            "vs_autograd_batch_50": small["torch"] / small["ours, recomputed"],
            "total_over_forward": best / whole["ours, forward only"],
            "total_over_forward_batch": large["ours, recomputed"] / large["ours, forward only"],
            "recompute_over_forward": (small["ours, recomputed"] - small["ours, stored"]) / small["ours, forward only"],
            "hvp_over_gradient": large["ours, Hessian-vector"] / large["ours, recomputed"],
            "hvp_over_gradient_grid": whole["ours, Hessian-vector"] / best,
            "second_thread_gain": large["ours, recomputed"] / large["ours, 2 threads"],
            "peak_mb": memory["ours"],
            "torch_peak_mb": memory["torch"],
        }
    )


if __name__ == "__main__":
    main()
