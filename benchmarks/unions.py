"""What it saves that examples of a union stop one by one, against a union that stops as a whole.

Sentences with skip links, inference to a tolerance, without and with a gradient. Beliefs of both ways are compared
first: they differ by about the tolerance. The last line is JSON: seconds of the whole over seconds of the parts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch

import loopwise as lw
from loopwise.graph.union import Union, union


def sentences(count: int, tags: int, rng: np.random.Generator) -> list[lw.FactorGraph]:
    """Chains of 5 to 40 words with a few links each."""
    graphs = []
    for size in rng.integers(5, 40, count).tolist():
        links = [(i, j) for i in range(size) for j in range(i + 2, size) if rng.random() < 1.0 / size]
        place = np.arange(size)
        scopes = {"tag": place[:, None], "step": np.stack([place[:-1], place[1:]], 1)}
        graphs.append(lw.FactorGraph([tags] * size, {**scopes, "same": np.array(links, dtype=int).reshape(-1, 2)}))
    return graphs


def whole(given: Union) -> lw.FactorGraph:
    """The same graph without knowing of its parts."""
    graph = given.graph
    scopes = {group.name: group.scopes for group in graph.groups}
    return lw.FactorGraph(graph.cardinalities, scopes)


def seconds(run: Callable[[], object], repeats: int) -> float:
    """The least of some runs, in seconds of the processor."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rng, method, repeats = np.random.default_rng(0), lw.BP(iterations=200, tolerance=1e-6), 3 if quick else 10
    results: dict[str, float] = {}
    for count, tags in ((64, 5), (256, 12)) if quick else ((64, 5), (256, 12), (1024, 12)):
        parts = union(sentences(count, tags, rng))
        plain = whole(parts)
        tables = {g.name: torch.tensor(rng.normal(size=(g.count, *g.shape))) for g in plain.groups}
        trained = {name: table.clone().requires_grad_() for name, table in tables.items()}
        mine, all_at_once = method(parts.graph, tables), method(plain, tables)
        off = float((mine.states - all_at_once.states).abs().max())
        assert off < 1e-4, off
        sweeps, most = mine.status.sweeps.double().mean(), all_at_once.status.sweeps
        ratio = seconds(lambda g=plain, t=tables: method(g, t), repeats) / seconds(
            lambda g=parts.graph, t=tables: method(g, t), repeats
        )

        def step(graph: lw.FactorGraph, given: dict[str, torch.Tensor] = trained) -> None:
            torch.autograd.grad(method(graph, given).states.square().sum(), list(given.values()))

        back = seconds(lambda g=plain: step(g), repeats) / seconds(lambda g=parts.graph: step(g), repeats)
        print(f"{count} sentences, {tags} tags: {sweeps:.1f} sweeps an example, {int(most)} as a whole; "
              f"{ratio:.2f} forward, {back:.2f} with a gradient")  # fmt: skip
        results[f"forward_{count}_{tags}"], results[f"gradient_{count}_{tags}"] = round(ratio, 2), round(back, 2)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
