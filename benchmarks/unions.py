"""What it saves that examples of a union stop one by one, against a union that stops as a whole.

Sentences with skip links, inference to a tolerance, without and with a gradient; then a template of such sentences
through ``lw.evaluate`` and an epoch of ``lw.fit``. Beliefs of both ways are compared first: they differ by about the
tolerance. The last line is JSON: seconds of the whole over seconds of the parts.
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


class Tagger(lw.Template):
    """Sentences, each a graph and numbers of its words; links and steps have one table each."""

    def __init__(self, words: int, tags: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        shapes = ((words, tags), (tags, tags), (tags, tags))
        self.emission, self.step, self.same = (
            torch.nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64)) for shape in shapes
        )

    def graph(self, sentence: tuple[lw.FactorGraph, np.ndarray]) -> lw.FactorGraph:
        return sentence[0]

    def values(self, sentence: tuple[lw.FactorGraph, np.ndarray]) -> np.ndarray:
        return sentence[1] % int(sentence[0].cardinalities[0])

    def prepare(self, sentence: tuple[lw.FactorGraph, np.ndarray]) -> dict[str, np.ndarray]:
        return {"word": sentence[1]}

    def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, torch.Tensor]:
        return {"tag": self.emission[batch["word"]], "step": self.step, "same": self.same}


class Together(lw.BP):
    """BP whose examples stop together."""

    def by_parts(self, graph: lw.FactorGraph) -> bool:
        return False


def of_template(count: int, tags: int, repeats: int, rng: np.random.Generator) -> tuple[float, float]:
    """How much longer evaluation and training of a template take where examples stop together."""
    examples = [(graph, rng.integers(0, 50, graph.variables)) for graph in sentences(count, tags, rng)]
    took = []
    for method in (Together, lw.BP):
        system = lw.System(Tagger(50, tags), method(iterations=200, tolerance=1e-6), lw.decode.SoftArgmax(0.5))
        data, size = lw.TemplateExamples.of(system.potentials, examples), lw.learn.TotalSize(10**6)

        def train(system: lw.System = system, data: object = data, size: object = size) -> None:
            lw.fit(system, data, lw.loss.L1(), optimizer=lambda p: torch.optim.SGD(p, lr=0.0), epochs=1, batch=size,
                   progress=False)  # fmt: skip

        def measure(system: lw.System = system, data: object = data) -> None:
            lw.evaluate(system, data, lw.metric.Accuracy())

        took.append((seconds(measure, repeats), seconds(train, repeats)))
    return took[0][0] / took[1][0], took[0][1] / took[1][1]


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
    evaluated, trained_in = of_template(64, 5, repeats, rng)
    print(f"a template of 64 sentences, 5 tags: {evaluated:.2f} evaluated, {trained_in:.2f} trained")
    results["evaluate_64_5"], results["fit_64_5"] = round(evaluated, 2), round(trained_in, 2)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
