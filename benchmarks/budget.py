"""Whether what the cost model promises is what the clock says: pruned graphs, fixed sweeps, policies that stop.

    python benchmarks/budget.py [--quick]

1. The complete graph of pairs, pruned to fewer and fewer factors on rebuilt layouts: messages against measured time.
2. Fixed numbers of sweeps likewise.
3. A batch in which most examples settle at once and some do not: a stopping policy against all sweeps for everyone, and
   against the engine's own test of convergence, which stops examples but keeps their lanes.
4. A tenth of the messages of six sweeps, drawn at random, against all of them, by the values of a variable.

Beliefs of pruned and gated systems, of policies and traced runs, and of all messages both ways are compared before
anything is timed. One thread, float64. Last line of output: JSON with the rank correlation of cost model and time, and
the speed-ups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from common import markdown_table, option_parser, print_summary
from loopwise.budget import (
    Bias,
    ChosenMessages,
    Cost,
    Gated,
    LargestChange,
    MessageCost,
    Policy,
    Stopping,
    calibrate,
    on_graph,
    prune,
    spend,
    strongest,
)
from loopwise.graph import complete, grid
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.sampling import thirds
from loopwise.learn.system import System
from loopwise.potentials.tables import TablePotentials
from timing import medians


@dataclass(frozen=True)
class Row:
    """One system: what it should cost and what it took."""

    name: str
    messages: float
    predicted: float  # nanoseconds an example
    measured: float  # nanoseconds an example


def pruned_rows(variables: int, examples: int, repeats: int, model: Cost) -> list[Row]:
    """The strongest factors of a random dense model, fewer and fewer; and all of them with fewer sweeps."""
    graph = complete(variables)
    method = BP(iterations=4, tolerance=0.0, engine=Compiled(1))
    dense = System(TablePotentials.random(graph, seed=0, scale=0.3), method)
    pairs = graph.group("pair").count
    systems = {f"{count} pairs": strongest(dense, count) for count in (pairs // 32, pairs // 8, pairs // 3, pairs)}
    for sweeps in (1, 2, 8):
        systems[f"{sweeps} sweeps"] = System(dense.potentials, replace(method, iterations=sweeps))
    values = np.random.default_rng(0).integers(0, 2, (examples, variables))
    data = Examples.of(graph, values, thirds(graph, 1))
    check_pruning(graph.variables, data)
    return rows_of(systems, data, repeats, model)


def check_pruning(variables: int, data: Examples) -> None:
    """Stops if a pruned system does not believe what the gated one does."""
    gated = System(Gated(TablePotentials.random(data.graph, seed=0, scale=0.5)), BP(iterations=4, tolerance=0.0))
    smaller = prune(gated)
    gated.eval()
    with torch.no_grad():
        error = float((smaller.beliefs(on_graph(data, smaller.graph)).states - gated.beliefs(data).states).abs().max())
    if not error < 1e-10:
        raise SystemExit(f"pruned and gated beliefs differ by {error:.2g}: nothing was timed")


def rows_of(systems: dict[str, System], data: Examples, repeats: int, model: Cost) -> list[Row]:
    moved = {name: on_graph(data, system.graph) for name, system in systems.items()}

    def run(name: str) -> None:
        with torch.no_grad():
            systems[name].beliefs(moved[name])

    seconds = medians({name: (lambda name=name: run(name)) for name in systems}, repeats)  # type: ignore[misc]
    return [
        Row(
            name,
            spend(system, moved[name], MessageCost()).cost,
            spend(system, moved[name], model).cost,
            1e9 * seconds[name] / len(data),
        )
        for name, system in systems.items()
    ]


def mixed_tables(side: int, states: int, examples: int, hard: float) -> tuple[dict[str, Tensor], Examples]:
    """Strong evidence everywhere in most examples, at one corner in the others."""
    graph = grid(side, side, states)
    generator = torch.Generator().manual_seed(0)
    unary = 4.0 * torch.randn(examples, graph.variables, states, generator=generator, dtype=torch.float64)
    difficult = torch.rand(examples, generator=generator) < hard
    unary[difficult, 1:] = 0.0
    pair = 1.2 * torch.eye(states, dtype=torch.float64)
    data = Examples.of(graph, np.zeros((examples, graph.variables), dtype=int), [1] * graph.variables)
    return {"unary": unary, "pair": pair}, data


def stopping_times(side: int, states: int, examples: int, repeats: int) -> dict[str, float]:
    """Microseconds an example of three ways to stop, checked against each other."""
    tables, data = mixed_tables(side, states, examples, 0.1)
    graph, limit = data.graph, 40
    whole = BP(iterations=limit, tolerance=0.0, engine=Compiled(1))
    policy = Policy((Bias(), LargestChange()))
    with torch.no_grad():
        policy.weights.copy_(torch.tensor([-3.0, -1.0]))
    stopping = Stopping(whole, policy)
    converged = BP(iterations=limit, tolerance=1e-3, engine=Compiled(1))
    with torch.no_grad():
        fast, slow = stopping(graph, tables), stopping.every_sweep(graph, tables)
        last = fast.status.sweeps - 1
        error = float((fast.states - slow.beliefs.states[last, torch.arange(examples)]).abs().max())
    if not error < 1e-10:
        raise SystemExit(f"a policy's beliefs differ from the traced run's by {error:.2g}: nothing was timed")

    def timed(method: object) -> object:
        with torch.no_grad():
            return method(graph, tables)  # type: ignore[operator]

    found = medians(
        {
            "all sweeps": lambda: timed(whole),
            "convergence test": lambda: timed(converged),
            "policy": lambda: timed(stopping),
        },
        repeats,
    )
    share = float(fast.status.sweeps.double().mean()) / limit
    return {**{name: 1e6 * value / examples for name, value in found.items()}, "share of sweeps": share}


def chosen_speedup(states: int, examples: int, repeats: int) -> float:
    """How many times as fast a tenth of the messages is as all of them."""
    graph, random, sweeps = grid(8, 8, states), np.random.default_rng(0), 6
    generator = torch.Generator().manual_seed(0)
    tables = {
        "unary": torch.randn(examples, graph.variables, states, generator=generator, dtype=torch.float64),
        "pair": TablePotentials.random(graph, seed=0)()["pair"].detach(),
    }
    whole = BP(iterations=sweeps, tolerance=0.0, engine=Compiled(1))
    everything = ChosenMessages(whole, graph, np.ones((sweeps, graph.layout.edges), dtype=bool))
    error = float((everything(graph, tables).states - whole(graph, tables).states).abs().max())
    if not error < 1e-10:
        raise SystemExit(f"beliefs of all messages, chosen and flooded, differ by {error:.2g}: nothing was timed")
    tenth = ChosenMessages(whole, graph, random.random((sweeps, graph.layout.edges)) < 0.1)
    found = medians({"all": lambda: whole(graph, tables), "tenth": lambda: tenth(graph, tables)}, repeats)
    return found["all"] / found["tenth"]


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    options = parser.parse_args()
    torch.set_num_threads(1)
    quick = options.quick
    repeats = 5 if quick else 15
    import warnings

    from loopwise.notices import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    model = calibrate(engine=Compiled(1), batch=256)
    rows = pruned_rows(30 if quick else 50, 256 if quick else 1024, repeats, model)
    print(markdown_table(
        ["system", "messages an example", "predicted ns", "measured ns"],
        [[row.name, f"{row.messages:.0f}", f"{row.predicted:.0f}", f"{row.measured:.0f}"] for row in rows],
    ))  # fmt: skip
    times = {states: stopping_times(8 if quick else 12, states, 256 if quick else 1024, repeats) for states in (2, 5)}
    print(markdown_table(
        ["values a variable", "all sweeps µs", "convergence test µs", "policy µs", "share of sweeps"],
        [
            [str(states), *(f"{found[name]:.1f}" for name in ("all sweeps", "convergence test", "policy")),
             f"{found['share of sweeps']:.2f}"]
            for states, found in times.items()
        ],
    ))  # fmt: skip
    chosen = {states: chosen_speedup(states, 256, repeats) for states in (2, 4, 8, 16)}
    print(markdown_table(
        ["values a variable", "a tenth of the messages, times as fast"],
        [[str(states), f"{ratio:.2f}"] for states, ratio in chosen.items()],
    ))  # fmt: skip
    measured = [row.measured for row in rows]
    print_summary(
        {
            "benchmark": "budget",
            "quick": quick,
            "messages_vs_time": round(float(spearmanr([row.messages for row in rows], measured).statistic), 4),
            "predicted_vs_time": round(float(spearmanr([row.predicted for row in rows], measured).statistic), 4),
            "pruned_32_speedup": round(rows[3].measured / rows[0].measured, 2),
            "policy_speedup": {str(k): round(v["all sweeps"] / v["policy"], 2) for k, v in times.items()},
            "policy_vs_convergence": {str(k): round(v["convergence test"] / v["policy"], 2) for k, v in times.items()},
            "tenth_of_messages_speedup": {str(k): round(v, 2) for k, v in chosen.items()},
            "share_of_sweeps": {str(k): round(v["share of sweeps"], 3) for k, v in times.items()},
        }
    )


if __name__ == "__main__":
    main()
