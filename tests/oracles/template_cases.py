"""Small templates with graphs of different shapes, and their marginals by enumeration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import loopwise as lw
from loopwise.inference.messages.structured import split_potentials, to_table_factors
from loopwise.potentials.checks import checked_tables
from oracles.enumeration import Enumeration, enumerate_model

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role
Sentence = dict[str, Any]


class SkipChain(lw.Template):
    """Tags of words: emissions, transitions, and links between equal words."""

    def __init__(self, words: int = 4, tags: int = 2, seed: int = 0, scale: float = 0.7) -> None:
        super().__init__()
        self.words, self.tags = words, tags
        generator = torch.Generator().manual_seed(seed)
        for name, shape in {"emit": (words, tags), "step": (tags, tags), "link": (tags, tags)}.items():
            values = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
            setattr(self, name, nn.Parameter(values))

    def options(self) -> dict[str, int]:
        return {"words": self.words, "tags": self.tags}

    def graph(self, sentence: Sentence) -> lw.FactorGraph:
        words = np.array(sentence["words"])
        place = np.arange(len(words))
        return lw.FactorGraph(
            [self.tags] * len(words),
            {
                "tag": place[:, None],
                "step": np.stack([place[:-1], place[1:]], 1),
                "same": np.argwhere(np.triu(words[:, None] == words, 1)),
            },
        )

    def values(self, sentence: Sentence) -> Any:
        return sentence.get("tags")

    def roles(self, sentence: Sentence) -> Any:
        return sentence.get("roles", OUTPUT)

    def prepare(self, sentence: Sentence) -> dict[str, Any]:
        return {"word": np.array(sentence["words"], dtype=np.int64)}

    def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, Tensor]:
        return {"tag": self.emit[batch["word"]], "step": self.step, "same": self.link[None]}


class Parts(lw.Template):
    """Variables of two and of three values, mixed; a table of their pairs; constants."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.pair = nn.Parameter(torch.randn(2, 3, generator=generator, dtype=torch.float64))
        self.wide = nn.Parameter(torch.randn(3, generator=generator, dtype=torch.float64))
        self.constant = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))

    def graph(self, example: Sentence) -> lw.FactorGraph:
        sizes = np.array(example["sizes"])
        narrow, wide = np.flatnonzero(sizes == 2), np.flatnonzero(sizes == 3)
        pairs = np.stack(np.meshgrid(narrow, wide, indexing="ij"), -1).reshape(-1, 2)
        return lw.FactorGraph(
            sizes, {"wide": wide[:, None], "pair": pairs, "constant": np.zeros((1, 0), dtype=np.int64)}
        )

    def values(self, example: Sentence) -> Any:
        return example["values"]

    def roles(self, example: Sentence) -> Any:
        return example.get("roles", OUTPUT)

    def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, Tensor]:
        return {"wide": self.wide.expand(batch.factors("wide"), 3), "pair": self.pair, "constant": self.constant}


class Arcs(lw.Template):
    """Arcs of a projective tree and a tag for each token; heads and their modifiers like to have the same tag."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.distance = nn.Parameter(0.5 * torch.randn(4, generator=generator, dtype=torch.float64))
        self.tag = nn.Parameter(0.5 * torch.randn(3, 2, generator=generator, dtype=torch.float64))
        self.agree = nn.Parameter(0.5 * torch.randn(2, 2, 2, generator=generator, dtype=torch.float64))
        self.steps = nn.Parameter(0.5 * torch.randn(2, 2, generator=generator, dtype=torch.float64))

    def shape(self, sentence: Sentence) -> int:
        return len(sentence["words"])

    def graph(self, sentence: Sentence) -> lw.FactorGraph:
        count = len(sentence["words"])
        tree = lw.ProjectiveTree(count)
        arcs, tags = np.arange(tree.arity), tree.arity + np.arange(count)
        heads, modifiers = np.array(tree.edges).T
        inner = heads > 0
        joined = np.stack([arcs[inner], tags[heads[inner] - 1], tags[modifiers[inner] - 1]], 1)
        structured: dict[str, Any] = {"tree": (tree, arcs)}
        if count > 1:
            structured["chain"] = (lw.Chain(count, 2), tags)
        return lw.FactorGraph(
            [2] * (tree.arity + count), {"arc": arcs[:, None], "tag": tags[:, None], "agree": joined}, structured
        )

    def values(self, sentence: Sentence) -> Any:
        count = len(sentence["words"])
        heads, modifiers = np.array(lw.ProjectiveTree(count).edges).T
        arcs = (np.array(sentence["heads"])[modifiers - 1] == heads).astype(np.int64)
        return np.concatenate([arcs, sentence["tags"]])

    def roles(self, sentence: Sentence) -> Any:
        return sentence.get("roles", OUTPUT)

    def prepare(self, sentence: Sentence) -> dict[str, Any]:
        heads, modifiers = np.array(lw.ProjectiveTree(len(sentence["words"])).edges).T
        return {"word": np.array(sentence["words"]), "distance": np.minimum(np.abs(heads - modifiers), 3)}

    def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, Any]:
        on = self.distance[batch["distance"]]
        chains = batch.graph.structured_group("chain")
        return {
            "arc": torch.stack([torch.zeros_like(on), on], 1),
            "tag": self.tag[batch["word"]],
            "agree": self.agree,
            "chain": [self.steps.expand(chain.potentials_shape or ()) for chain in (chains.factors if chains else ())],
        }


SENTENCES: list[Sentence] = [
    {"words": [0, 1, 0], "tags": [1, 0, 1]},
    {"words": [2], "tags": [0]},
    {"words": [1, 3, 1, 1], "tags": [0, 1, -1, 0]},  # the third is missing
    {"words": [3, 2], "tags": [1, -1], "roles": [INPUT, OUTPUT]},  # nothing is scored
    {"words": [0, 3, 0, 2], "tags": [1, 1, 0, 0], "roles": [OUTPUT, HIDDEN, INPUT, OUTPUT]},
]
MIXED: list[Sentence] = [
    {"sizes": [2, 3, 2], "values": [1, 2, 0]},
    {"sizes": [3, 3, 2, 2, 3], "values": [0, 1, 1, -1, 2], "roles": [OUTPUT, OUTPUT, OUTPUT, HIDDEN, INPUT]},
    {"sizes": [2, 2], "values": [1, 0]},
    {"sizes": [3], "values": [2]},
]
TREES: list[Sentence] = [
    {"words": [0, 1], "heads": [0, 1], "tags": [1, 0]},
    {"words": [2, 1, 0], "heads": [2, 0, 2], "tags": [0, 1, 1]},
    {"words": [1], "heads": [0], "tags": [1]},
    {"words": [2, 0], "heads": [2, 0], "tags": [-1, 1], "roles": [OUTPUT] * 4 + [OUTPUT, HIDDEN]},
]
CASES: dict[str, tuple[type[lw.Template], list[Sentence]]] = {
    "skip chain": (SkipChain, SENTENCES),
    "mixed": (Parts, MIXED),
    "trees": (Arcs, TREES),
}


def enumerated(template: lw.Template, example: Any, clamped: Mapping[int, int] | None = None) -> Enumeration:
    """The model of one example by enumeration, with ``clamped`` variables (by default its inputs) held."""
    single = lw.TemplateExamples.of(template, [example])
    with torch.no_grad():
        graph, tables = single.graph, single.tables(template)
        rest, own = split_potentials(graph, tables)
        checked, _ = checked_tables(graph, rest)
        if graph.structured:
            graph, checked = to_table_factors(graph, checked, own, torch.empty(0, dtype=torch.float64))
    if clamped is None:
        clamped = {place: int(value) for place, value in enumerate(single.evidence.clamp((INPUT,))) if value >= 0}
    scopes: dict[str, Any] = {group.name: group.scopes for group in graph.groups}
    numbers: dict[str, Any] = {name: table.detach().numpy() for name, table in checked.items()}
    for variable, value in clamped.items():
        held = np.full((1, graph.cardinalities[variable]), -np.inf)
        held[0, value] = 0.0
        scopes[f"held {variable}"], numbers[f"held {variable}"] = np.array([[variable]]), held
    return enumerate_model(lw.FactorGraph(graph.cardinalities, scopes), numbers)


def likelihood(template: lw.Template, example: Any) -> float:
    """The negative log-likelihood of one example's outputs by enumeration."""
    known = lw.TemplateExamples.of(template, [example]).evidence.clamp((INPUT, OUTPUT))
    held = {place: int(value) for place, value in enumerate(known) if value >= 0}
    return enumerated(template, example).log_partition - enumerated(template, example, held).log_partition
