"""BP on many evidence settings of one graph: ours (examples in lanes) against the best plain torch.

    python benchmarks/bp_batch.py [--quick]

1000 examples, each with a random third of the variables observed (other ones in each example), 100 sweeps, random
binary MRFs of 50 variables and 200 edges, 200 variables and 1060 edges. Beliefs are compared before anything is
timed. Last line of output: JSON with `vs_torch_50`, `vs_torch_200` (one thread, same precision) and more.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from common import option_parser, print_summary
from loopwise.graph import random_mrf
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.schedules import Flooding, Schedule, Sequential
from timing import medians
from torch_bp import TorchBP


def run_size(
    variables: int, edges: int, examples: int, sweeps: int, repeats: int, dtype: torch.dtype
) -> dict[str, float]:
    graph = random_mrf(variables, edges, unary=True, seed=0)
    generator = torch.Generator().manual_seed(1)
    pair = torch.randn(edges, 2, 2, generator=generator, dtype=torch.float64).to(dtype)
    values = torch.randint(0, 2, (examples, variables), generator=generator)
    observed = torch.rand(examples, variables, generator=generator) < 1 / 3
    unary = torch.zeros(examples, variables, 2, dtype=dtype)
    unary.scatter_(2, 1 - values[..., None], torch.where(observed, -torch.inf, 0.0)[..., None].to(dtype))
    innermost = unary.permute(1, 2, 0).contiguous()

    def ours(threads: int, schedule: Schedule) -> Callable[[], torch.Tensor]:
        solver = BP(iterations=sweeps, tolerance=0, engine=Compiled(threads), schedule=schedule)
        return lambda: solver(graph, {"pair": pair, "unary": unary}).variables

    contenders: dict[str, Callable[[], object]] = {
        "ours": ours(1, Flooding()),
        "ours, 2 threads": ours(2, Flooding()),
        "sequential": ours(1, Sequential()),
    }
    # Padding to the highest degree is hopeless on memory for the large graph in batches, so logarithms only there.
    plain = {"torch logs": False, "torch padded": True} if variables <= 50 else {"torch logs": False}
    for name, padded in plain.items():
        solver = TorchBP(graph, padded)
        contenders[name] = lambda solver=solver: solver.run(pair, innermost, sweeps)  # type: ignore[misc]
    reference = ours(1, Flooding())()
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    for name in plain:
        error = float((contenders[name]().permute(2, 0, 1) - reference).abs().max())  # type: ignore[attr-defined]
        if not error <= tolerance:
            raise SystemExit(f"{name} differs from ours by {error:.2g}: nothing was timed")
    seconds = medians(contenders, repeats)
    for name, value in seconds.items():
        print(f"{variables:4d} variables, {edges} edges, {str(dtype)[6:]}: {name:18s} {1e3 * value:8.1f} ms")
    seconds["torch"] = min(seconds[name] for name in plain)
    return seconds


def main() -> None:
    options = option_parser(__doc__.splitlines()[0]).parse_args()
    examples, sweeps, repeats = (320, 20, 3) if options.quick else (1000, 100, 5)
    torch.set_num_threads(1)
    small = run_size(50, 200, examples, sweeps, repeats, torch.float64)
    large = run_size(200, 1060, examples, sweeps, repeats, torch.float64)
    single = run_size(50, 200, examples, sweeps, repeats, torch.float32)
    print_summary(
        {
            "examples": examples,
            "sweeps": sweeps,
            "vs_torch_50": small["torch"] / small["ours"],
            "vs_torch_200": large["torch"] / large["ours"],
            "vs_torch_50_float32": single["torch"] / single["ours"],
            "second_thread_gain_50": small["ours"] / small["ours, 2 threads"],
            "second_thread_gain_200": large["ours"] / large["ours, 2 threads"],
            "sequential_over_flooding_50": small["sequential"] / small["ours"],
            "sequential_over_flooding_200": large["sequential"] / large["ours"],
            "ns_per_message_200": 1e9 * large["ours"] / (examples * sweeps * 2 * 1060),
        }
    )


if __name__ == "__main__":
    main()
