"""Flooding BP on one large grid: ours against PGMax and plain torch; schedules, threads, scaling, start-up.

    python benchmarks/bp_grid.py [--quick]

Beliefs are compared before anything is timed. Last line of output: JSON with `vs_pgmax`, `vs_torch` (how many times
faster ours is, one thread), `ns_per_message`, `sequential_over_flooding`, `residual_over_flooding` (of one message),
`second_thread_gain`, `large_over_million` (time per message of a binary grid of 5 million factors over one of a
million, whole calls of 20 sweeps), `peak_over_tables` (by how much the former's first call raises the peak memory of a
process of its own, over the bytes of its tables), and more.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

from common import option_parser, print_summary
from loopwise.compare.memory import peak_rise
from loopwise.graph import FactorGraph, grid
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP, TRW
from loopwise.inference.messages.schedules import Flooding, Residual, Schedule, Sequential
from timing import medians
from torch_bp import TorchBP

STATES = 5


def tables_of(graph: FactorGraph, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        group.name: 2 * torch.rand(group.count, *group.shape, generator=generator, dtype=torch.float64) - 1
        for group in graph.groups
    }


def ours(
    graph: FactorGraph, tables: dict[str, torch.Tensor], sweeps: int, threads: int, schedule: Schedule
) -> Callable[[], torch.Tensor]:
    solver = BP(iterations=sweeps, tolerance=0, schedule=schedule, engine=Compiled(threads))
    return lambda: solver(graph, tables).states


def plain_torch(
    graph: FactorGraph, tables: dict[str, torch.Tensor], sweeps: int, padded: bool
) -> Callable[[], torch.Tensor]:
    solver = TorchBP(graph, padded)
    return lambda: solver.run(tables["pair"], tables["unary"][..., None], sweeps)[..., 0]


def pgmax(
    graph: FactorGraph, tables: dict[str, torch.Tensor], size: int, sweeps: int
) -> Callable[[], np.ndarray] | None:
    """PGMax on the same grid (float32, its only precision), compiled and warm; None if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import jax
            import jax.extend.backend

            if not hasattr(jax.lib, "xla_bridge"):  # PGMax 0.6.1 looks for it where current JAX no longer has it
                jax.lib.xla_bridge = jax.extend.backend
            from pgmax import fgraph, fgroup, infer, vgroup
    except ImportError:
        return None
    variables = vgroup.NDVarArray(num_states=STATES, shape=(size, size))
    model = fgraph.FactorGraph(variable_groups=variables)
    places = [divmod(int(variable), size) for variable in range(graph.variables)]
    model.add_factors(
        fgroup.PairwiseFactorGroup(
            variables_for_factors=[[variables[places[i]], variables[places[j]]] for i, j in graph.group("pair").scopes],
            log_potential_matrix=tables["pair"].numpy(),
        )
    )
    solver = infer.build_inferer(model.bp_state, backend="bp")
    evidence = tables["unary"].numpy().reshape(size, size, STATES)

    def run() -> np.ndarray:
        arrays = solver.init(evidence_updates={variables: evidence})
        arrays = solver.run(arrays, num_iters=sweeps, damping=0.0, temperature=1.0)
        beliefs = infer.get_marginals(solver.get_beliefs(arrays))
        return np.asarray(beliefs[variables]).reshape(-1)

    return run


def checked(name: str, result: object, reference: torch.Tensor, tolerance: float) -> float:
    error = float(np.abs(np.asarray(result, dtype=np.float64).reshape(-1) - reference.numpy().reshape(-1)).max())
    if not error <= tolerance:
        raise SystemExit(
            f"{name} differs from ours by {error:.2g} (at most {tolerance:.2g} allowed): nothing was timed"
        )
    return error


def warm_first_call() -> float:
    """Seconds of the first call in a fresh process with a warm cache, imports not counted."""
    script = (
        "import time, torch, loopwise as lw, loopwise.inference.messages.compiled\n"
        "from loopwise.inference.messages.message_passing import BP\n"
        "g = lw.grid(8, 8, 5); t = {k.name: torch.zeros(k.count, *k.shape, dtype=torch.float64) for k in g.groups}\n"
        "begin = time.perf_counter(); BP(iterations=2, tolerance=0)(g, t); print(time.perf_counter() - begin)"
    )
    for _ in range(2):  # the first run may fill the cache
        answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(answer.stdout)


def memory_and_scaling(sizes: list[int]) -> list[dict[str, float]]:
    """Binary grids of growing size, 20 sweeps: nanoseconds and bytes a message stay level when all is linear."""
    rows = []
    for size in sizes:
        graph = grid(size, size, 2)
        tables = tables_of(graph)
        solver = BP(iterations=20, tolerance=0, engine=Compiled(1))
        solver(graph, tables)  # compiles kernels and the graph's layout, once
        begin = time.perf_counter()
        beliefs = solver(graph, tables)
        seconds = time.perf_counter() - begin
        if not bool(torch.isfinite(beliefs.states).all()):
            raise SystemExit(f"beliefs of the {size} x {size} grid are not finite")
        layout = graph.layout
        held = sum(
            array.nbytes
            for array in vars(next(iter(layout.storages.values()))).values()
            if isinstance(array, np.ndarray)
        )
        rows.append(
            {
                "size": size,
                "ns_per_message": 1e9 * seconds / (20 * layout.edges),
                "plan_bytes_per_edge": held / layout.edges,
            }
        )
    return rows


def measure_large(factors: int) -> None:
    """Prints the nanoseconds per message of a binary grid of about so many factors, and how far the first call raises
    the peak memory, over the bytes of its tables. To be run in a process of its own."""
    torch.set_num_threads(1)
    solver = BP(iterations=20, tolerance=0, engine=Compiled(1))
    small = grid(8, 8, 2)
    solver(small, tables_of(small))  # compiles kernels
    size = round((factors / 2) ** 0.5) + 1
    graph = grid(size, size, 2)
    tables = tables_of(graph)
    edges = graph.layout.edges
    peak = peak_rise(lambda: solver(graph, tables)) or float("nan")
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        solver(graph, tables)
        seconds.append(time.perf_counter() - begin)
    held = sum(table.numel() * table.element_size() for table in tables.values())
    print(json.dumps({"ns": 1e9 * min(seconds) / (20 * edges), "peak": peak / held}))


def large(factors: int) -> dict[str, float]:
    """What :func:`measure_large` finds in a fresh process."""
    command = [sys.executable, __file__, "--large", str(factors)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--large", type=int, help="only measure a binary grid of so many factors")
    options = parser.parse_args()
    if options.large:
        measure_large(options.large)
        return
    size, sweeps, repeats = (48, 50, 3) if options.quick else (128, 50, 7)
    torch.set_num_threads(1)
    graph = grid(size, size, STATES)
    tables = tables_of(graph)
    sent = sweeps * graph.layout.edges
    reference = ours(graph, tables, sweeps, 1, Flooding())()

    contenders: dict[str, Callable[[], object]] = {
        "ours": ours(graph, tables, sweeps, 1, Flooding()),
        "ours, setup and one sweep": ours(graph, tables, 1, 1, Flooding()),
        "torch padded": plain_torch(graph, tables, sweeps, True),
        "torch logs": plain_torch(graph, tables, sweeps, False),
        "sequential": ours(graph, tables, sweeps, 1, Sequential()),
        "sequential, setup and one sweep": ours(graph, tables, 1, 1, Sequential()),
        "residual, as many as in 3 sweeps": ours(graph, tables, 3, 1, Residual()),
        "residual, as many as in 1 sweep": ours(graph, tables, 1, 1, Residual()),
        "trw": lambda: TRW(rho=0.5, iterations=sweeps, tolerance=0, engine=Compiled(1))(graph, tables).states,
    }
    errors = {name: checked(name, contenders[name](), reference, 1e-9) for name in ("torch padded", "torch logs")}
    peer = pgmax(graph, tables, size, sweeps)
    if peer is not None:
        errors["pgmax"] = checked("pgmax", peer(), reference, 1e-3)  # float32, 50 sweeps
        contenders["pgmax"] = peer
    seconds = medians(contenders, repeats)
    threaded = medians(
        {"one": ours(graph, tables, sweeps, 1, Flooding()), "two": ours(graph, tables, sweeps, 2, Flooding()),
         "one sweep": ours(graph, tables, 1, 1, Flooding()), "one sweep, two": ours(graph, tables, 1, 2, Flooding())},
        repeats,
    )  # fmt: skip
    for name, value in seconds.items():
        print(f"{name:34s} {1e3 * value:9.1f} ms   {1e9 * value / sent:8.1f} ns a message")
    rows = memory_and_scaling([32, 64, 128] if options.quick else [64, 128, 256, 512, 1000])
    for row in rows:
        plan = f"{row['plan_bytes_per_edge']:.0f} bytes of plan an edge"
        print(f"binary grid {row['size']:5d}²: {row['ns_per_message']:6.1f} ns a message, {plan}")
    torch_best = min(seconds["torch padded"], seconds["torch logs"])
    kernel = (seconds["ours"] - seconds["ours, setup and one sweep"]) / (sweeps - 1)
    kernel_sequential = (seconds["sequential"] - seconds["sequential, setup and one sweep"]) / (sweeps - 1)
    kernel_residual = (
        seconds["residual, as many as in 3 sweeps"] - seconds["residual, as many as in 1 sweep"]
    ) / 2  # for as many messages as in a sweep
    million, five = (large(count // 10 if options.quick else count) for count in (1_000_000, 5_000_000))
    print_summary(
        {
            "grid": size,
            "sweeps": sweeps,
            "ns_per_message": 1e9 * seconds["ours"] / sent,
            "ns_per_message_kernel": 1e9 * kernel / graph.layout.edges,
            "vs_torch": torch_best / seconds["ours"],
            "vs_pgmax": seconds["pgmax"] / seconds["ours"] if peer is not None else None,
            "trw_over_bp": seconds["trw"] / seconds["ours"],
            "sequential_over_flooding": kernel_sequential / kernel,
            "residual_over_flooding": kernel_residual / kernel,
            "large_over_million": five["ns"] / million["ns"],
            "peak_over_tables": five["peak"],
            "second_thread_gain": (threaded["one"] - threaded["one sweep"])
            / (threaded["two"] - threaded["one sweep, two"]),
            "second_thread_gain_with_setup": threaded["one"] / threaded["two"],
            "warm_first_call_seconds": warm_first_call(),
            "scaling": rows,
            "errors": errors,
        }
    )


if __name__ == "__main__":
    main()
