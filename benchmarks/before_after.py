"""The same calls in two checkouts of this library, in turns: what a change costs or gains.

    python benchmarks/before_after.py --before ../another/checkout [--quick]

Each checkout has a process of its own, which times one call when asked to; the processes take turns, and the fastest of
several rounds counts, so that other work on the machine hits both alike. Answers are compared before anything is timed.
Last line of output: JSON with the time of this checkout over that of the other, case by case, and the largest of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import loopwise as lw
from common import option_parser, print_summary
from loopwise.inference.base import Inference
from loopwise.inference.messages.compiled import Compiled

HERE = Path(__file__).resolve()
CLOSE = 1e-5  # runs to a tolerance may end a sweep apart


def cases(quick: bool) -> dict[str, Callable[[], torch.Tensor]]:
    """Calls that return beliefs: runs that stop by themselves, and budgets that do not."""
    side, examples = (48, 256) if quick else (128, 1000)
    generator = torch.Generator().manual_seed(0)

    def random(graph: lw.FactorGraph, scale: float, *batch: int) -> dict[str, torch.Tensor]:
        return {
            group.name: scale * torch.randn(*batch, group.count, *group.shape, generator=generator, dtype=torch.float64)
            for group in graph.groups
        }

    grid, binary, chain = lw.grid(side, side, 5), lw.grid(side, side, 2), lw.chain(200, 5)
    mrf = lw.random_mrf(50, 200, unary=True, seed=0)
    on_grid, on_binary, on_chain = random(grid, 1.0), random(binary, 0.5), random(chain, 1.0)
    batch = {"pair": random(mrf, 0.5)["pair"], "unary": random(mrf, 0.5, examples)["unary"]}
    engine = Compiled(1)

    def call(method: Inference, graph: lw.FactorGraph, potentials: dict[str, torch.Tensor]) -> torch.Tensor:
        return method(graph, potentials).states

    return {
        "grid_to_tolerance": lambda: call(lw.BP(engine=engine), grid, on_grid),
        "grid_sequential_to_tolerance": lambda: call(lw.BP(schedule=lw.Sequential(), engine=engine), grid, on_grid),
        "binary_grid_to_tolerance": lambda: call(lw.BP(engine=engine), binary, on_binary),
        "batch_to_tolerance": lambda: call(lw.BP(engine=engine), mrf, batch),
        "batch_sequential_to_tolerance": lambda: call(lw.BP(schedule=lw.Sequential(), engine=engine), mrf, batch),
        "trw_to_tolerance": lambda: call(lw.TRW(rho=0.5, schedule=lw.Sequential(), engine=engine), binary, on_binary),
        "chain_to_tolerance": lambda: call(lw.BP(iterations=300, engine=engine), chain, on_chain),
        "grid_10_sweeps": lambda: call(lw.BP(iterations=10, tolerance=0, engine=engine), grid, on_grid),
        "batch_10_sweeps": lambda: call(lw.BP(iterations=10, tolerance=0, engine=engine), mrf, batch),
        "batch_4_sweeps": lambda: call(lw.BP(iterations=4, tolerance=0, engine=engine), mrf, batch),
    }


def serve(quick: bool) -> None:
    """Answers, on standard output, what is asked on standard input: a case's beliefs (saved to a file) or its time."""
    torch.set_num_threads(1)
    known = cases(quick)
    for line in sys.stdin:
        name, _, target = line.strip().partition(" ")
        begin = time.perf_counter()
        found = known[name]()
        seconds = time.perf_counter() - begin
        if target:
            np.save(target, found.numpy())
        print(seconds, flush=True)


class Checkout:
    """A process that runs the cases with the library of one checkout."""

    def __init__(self, folder: Path, quick: bool) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "src"),
            "NUMBA_CACHE_DIR": str(folder / ".venv" / "turns"),
        }
        command = [sys.executable, str(HERE), "--serve", *(["--quick"] if quick else [])]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=HERE.parent, text=True
        )

    def ask(self, line: str) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--serve", action="store_true", help="(used by the script itself)")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.serve:
        serve(options.quick)
        return
    if options.before is None or not (options.before / "src" / "loopwise").is_dir():
        raise SystemExit("--before must be another checkout of this repository")
    sides = {
        "before": Checkout(options.before.resolve(), options.quick),
        "after": Checkout(HERE.parents[1], options.quick),
    }
    summary: dict[str, float] = {}
    answers_in = Path(tempfile.mkdtemp())
    for name in cases(options.quick):
        answers = {}
        for side, checkout in sides.items():
            target = answers_in / f"{side}.npy"
            checkout.ask(f"{name} {target}")  # compiles
            answers[side] = np.load(target)
            target.unlink()
        error = float(np.abs(answers["before"] - answers["after"]).max())
        if not error <= CLOSE:
            raise SystemExit(f"{name}: the answers of the two checkouts differ by {error:.2g}: nothing was timed")
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(options.rounds):
            best = {side: min(best[side], checkout.ask(name)) for side, checkout in sides.items()}
        summary[name] = best["after"] / best["before"]
        print(
            f"{name:32s} {1e3 * best['before']:9.2f} ms before, {1e3 * best['after']:9.2f} after: {summary[name]:.3f}"
        )
    summary["largest"] = max(summary.values())
    print_summary(summary)


if __name__ == "__main__":
    main()
