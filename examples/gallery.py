"""One of each picture of ``lw.plot``, on small models made here.

Run it: ``python examples/gallery.py --out FOLDER``; some seconds after the first run, which compiles. The page on plots
in the documentation shows what it draws.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import loopwise as lw
from loopwise import budget, plot

SEED = 0


def graphs() -> Iterator[tuple[str, Any]]:
    """Factor graphs: a grid with evidence, a random one, one with a structured factor."""
    yield "factor_graph.png", plot.factor_graph(lw.grid(4, 6), {0: 1, 9: 0, 14: 1})
    yield "factor_graph_random.png", plot.factor_graph(lw.random_mrf(variables=16, edges=22, seed=3))
    cells = np.arange(12).reshape(3, 4)
    rows = [(lw.ExactlyOne(4), row) for row in cells]
    pairs = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    ties = {"unary": cells.reshape(-1, 1), "pair": pairs}
    graph = lw.FactorGraph(np.full(12, 2), ties, {"one each": rows})
    names = [f"{row}{column}" for row in "abc" for column in "1234"]
    yield "factor_graph_structured.png", plot.factor_graph(graph, {0: 1}, names=names)


def grafted() -> Any:
    """Ten columns, six of which follow another; factors are found one after another."""
    rng = np.random.default_rng(SEED)
    values = rng.integers(0, 2, (600, 10))
    for place in range(6):
        values[:, place + 4] = np.where(rng.random(600) < 0.6 + 0.06 * place, values[:, place], values[:, place + 4])
    graph = lw.FactorGraph.from_scopes([2] * 10, [(place,) for place in range(10)])
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0), lw.decode.Max())
    examples = lw.Examples.of(graph, values, [lw.Role.INPUT] * 4 + [lw.Role.OUTPUT] * 6)
    goal = lw.loss.SurrogateLikelihood()
    found = budget.graft(system, examples[:400], goal, dev=examples[400:], rounds=8)
    return plot.grafting(found.steps, lw.evaluate(system, examples[400:], goal))


def spin_grid(side: int, strength: float) -> tuple[lw.FactorGraph, dict[str, torch.Tensor]]:
    """Binary variables with random fields and couplings of both signs."""
    graph = lw.grid(side, side)
    generator = torch.Generator().manual_seed(SEED)
    spin = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    fields = 2 * torch.rand(graph.variables, 1, generator=generator, dtype=torch.float64) - 1
    weights = 2 * torch.rand(graph.group("pair").count, 1, 1, generator=generator, dtype=torch.float64) - 1
    return graph, {"unary": 0.5 * fields * spin, "pair": strength * weights * torch.outer(spin, spin)}


def inference() -> Iterator[tuple[str, Any]]:
    """Beliefs, how they came about, and whether they settled."""
    chain = lw.chain(6, states=3)
    few = lw.BP()(chain, lw.TablePotentials.random(chain, seed=SEED))
    yield "beliefs.png", plot.beliefs(few, values=["low", "middle", "high"])
    graph, potentials = spin_grid(10, 1.2)
    methods = {
        "BP, flooding": lw.BP(iterations=40, trace=True),
        "BP, damped": lw.BP(iterations=40, damping=0.3, trace=True),
        "BP, sequential": lw.BP(iterations=40, schedule=lw.Sequential(), trace=True),
        "TRW, sequential": lw.TRW(iterations=40, schedule=lw.Sequential(), trace=True),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.notices.ConvergenceWarning)  # the picture shows it
        runs = {name: method(graph, potentials) for name, method in methods.items()}
    yield "marginal_image.png", plot.marginal_image(runs["BP, sequential"], (10, 10))
    yield "sweeps.png", plot.sweeps(runs["BP, flooding"], variables=range(0, 100, 11))
    yield "beliefs_many.png", plot.beliefs(runs["BP, sequential"])
    yield "convergence.png", plot.convergence(runs)


def learning() -> Iterator[tuple[str, Any]]:
    """Training, what it did to the losses, and what beliefs are worth afterwards."""
    graph = lw.random_mrf(variables=16, edges=30, unary=True, seed=SEED)
    truth = lw.TablePotentials.random(graph, seed=SEED)
    train, test = lw.sample_examples(truth, count=(200, 400), roles=lw.learn.thirds(graph, seed=1), seed=2)
    inference = lw.BP(iterations=3, tolerance=0)
    systems, histories, found = {}, {}, {}
    for name, goal in {"likelihood": lw.loss.SurrogateLikelihood(), "MSE": lw.loss.MSE()}.items():
        system = systems[name] = lw.System(lw.TablePotentials(graph), inference)
        histories[name] = lw.fit(system, train, goal, epochs=20, dev=test, measure=lw.loss.MSE(), progress=False)
        said = system.predict_marginals(test)[..., 1].numpy()[test.outputs.numpy()]
        found[name] = lw.metric.reliability(said, test.values[test.outputs.numpy()] == 1)
    yield "history.png", plot.history({"MSE": histories["MSE"]})
    yield "reliability.png", plot.reliability(found)
    right, likely, there = lw.System(truth, inference), systems["likelihood"], systems["MSE"]
    deciding = lw.System(truth, inference, lw.decode.SoftArgmax(0.5))
    goals = [lw.loss.L1(), lw.loss.SurrogateLikelihood()]
    yield "landscape.png", plot.landscape(deciding, train, goals, there, points=21)
    yield "landscape_map.png", plot.landscape(right, train, lw.loss.MSE(), there, across=likely, points=11)
    methods = (budget.FixedSweeps((1, 2, 3)), budget.Magnitude((25, 20, 15, 10), refit=2))
    frontier = lw.budget.pareto(there, train, lw.loss.MSE(), [0.01], methods=methods, epochs=2, progress=False)
    yield "pareto.png", plot.pareto(frontier)
    yield "grafting.png", grafted()


def estimators() -> Iterator[tuple[str, Any]]:
    """What gradients cost and how exact they are."""
    graph, potentials = spin_grid(4, 0.4)
    labels = torch.zeros(16, dtype=torch.int64)
    method = lw.BP(engine=lw.inference.Reference())  # nothing to compile
    compared = lw.compare.compare_gradients(graph, potentials, lambda beliefs: lw.loss.MSE()(beliefs, labels), method)
    yield "gradients.png", plot.gradients(compared.rows)


def pictures() -> Iterator[tuple[str, Any]]:
    """Images in rows, and arcs over words."""
    generator = np.random.default_rng(SEED)
    rows, columns = np.mgrid[0:24, 0:24]
    clean = (((rows - 11) ** 2 + (columns - 8) ** 2 < 50) | ((rows > 14) & (columns > 13))).astype(np.int64)
    noisy = np.clip(clean + generator.normal(0, 0.6, clean.shape), 0, 1)
    graph = lw.grid(24, 24)
    unary = torch.from_numpy(np.stack([0 * noisy, 3 * (noisy - 0.5)], -1).reshape(-1, 2))
    pair = 0.9 * torch.eye(2, dtype=torch.float64)
    beliefs = lw.BP(iterations=20, tolerance=0)(graph, {"unary": unary, "pair": pair})
    marginals = beliefs.variables[:, 1].reshape(24, 24).numpy()
    shown = {"noisy": noisy, "P(x = 1)": marginals, "decided": (marginals > 0.5).astype(np.int64), "truth": clean}
    yield "gallery.png", plot.gallery([shown])
    words, heads = ["time", "flies", "like", "an", "arrow"], [2, 0, 5, 5, 2]
    marginals = np.zeros((6, 6))
    for word, head in enumerate(heads, 1):
        marginals[head, word] = 0.9
    marginals[3, 2] = marginals[0, 3] = 0.1
    marginals[5, 3], marginals[2, 3] = 0.6, 0.3
    tags, relations = ["NOUN", "VERB", "ADP", "DET", "NOUN"], ["nsubj", "root", "case", "det", "obl"]
    yield "arcs.svg", plot.arcs(words, heads, tags=tags, relations=relations, marginals=marginals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/gallery"), help="folder for the pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for part in (graphs, inference, learning, estimators, pictures):
        for name, picture in part():
            plot.save(picture, options.out / name)
            print(f"wrote {options.out / name}", flush=True)


if __name__ == "__main__":
    main()
