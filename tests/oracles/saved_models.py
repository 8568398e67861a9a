"""A small saved file of every kind that loopwise writes, what loads it, and what it then answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import loopwise as lw
from loopwise import budget, decode
from loopwise.apps import ChainCRF, Coref, Dedupe, GridCRF, MRFClassifier, MultiLabel, Parser, Tagger
from loopwise.apps.chain import ChainPerceptron
from loopwise.apps.coref import made_documents
from loopwise.apps.dedupe import made_records
from loopwise.apps.grid_crf import ContrastPair, ConvUnary
from loopwise.apps.parser.options import Pruning, Templates
from loopwise.formats.table import Vocabulary
from loopwise.learn import System
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparsePotentials
from loopwise.potentials.tied import TiedTables
from oracles.toy_language import toy_sentences

Answers = list[Any]  # arrays of numbers or lists of texts


@dataclass(frozen=True)
class Saved:
    """One kind of file: ``save`` writes one, ``load`` reads it, ``answer`` uses what was read."""

    save: Callable[[Path], object]
    load: Callable[[Path], Any]
    answer: Callable[[Any], Answers]


def _system(inference: Any, decoder: Any, potentials: Any = None) -> System:
    graph = lw.FactorGraph.from_scopes([2, 3, 2], [(0,), (1,), (2,), (0, 1), (1, 2)])
    names = Vocabulary(("a", "b", "c"), (("0", "1"), ("x", "y", "z"), ("0", "1")))
    potentials = lw.TablePotentials.random(graph, seed=0) if potentials is None else potentials(graph)
    return System(potentials, inference, decoder, vocabulary=names, roles=np.array([0, 1, 1]))


def _tied(graph: lw.FactorGraph) -> TiedTables:
    return TiedTables.random(graph, seed=1)


def _ask(system: System) -> Answers:
    return [system.predict({0: 1}).numpy(), system.predict_marginals({0: 1}).numpy()]


def _sparse() -> System:
    model = SparsePotentials.of(lw.chain(3, states=4), {"unary": 20, "pair": 1})
    with torch.no_grad():
        for number, weight in enumerate(model.weights):
            weight.copy_(torch.arange(weight.numel(), dtype=weight.dtype).reshape(weight.shape) % 3 - number)
    return System(model, lw.BP(iterations=5), decode.Max())


def _ask_sparse(system: System) -> Answers:
    features = {"unary": Features.of_rows([[17, 3], [5], [9, 17]])}
    return [system.beliefs(inputs={"features": features}).states.detach().numpy()]


def _structured() -> System:
    graph = lw.FactorGraph(
        [2, 2, 2], {"unary": [[0], [1], [2]]}, {"one": [(lw.graph.structured.ExactlyOne(3), [0, 1, 2])]}
    )
    return System(lw.TablePotentials.random(graph, seed=2), lw.BP(iterations=5), decode.Max())


def _stopping() -> System:
    policy = budget.Policy((budget.Bias(), budget.LargestChange(smooth=3.0), budget.Confident(0.8)))
    return System(lw.TablePotentials.random(lw.graph.complete(4), seed=0), budget.Stopping(lw.BP(iterations=9), policy))


_RNG = np.random.default_rng(0)
_X, _Y = _RNG.normal(size=(30, 3)), _RNG.integers(0, 2, (30, 4))
_WORDS = [["Ann", "saw", "Bob"], ["the", "dog", "saw", "Ann"], ["Bob", "ran"]]
_TAGS = [["B-PER", "O", "B-PER"], ["O", "O", "O", "B-PER"], ["B-PER", "O"]]
_IMAGE = _RNG.random((6, 5))


def _grid(**options: Any) -> Callable[[Path], object]:
    def save(path: Path) -> None:
        model = GridCRF(states=2, inference=lw.TRW(iterations=5), **options)
        model.begin(1).prepare([torch.from_numpy(_IMAGE)[None, None]])
        model.save(path, {"label_values": [0, 255]})

    return save


def _chains(path: Path) -> None:
    sequences = [_X[:7], _X[7:12], _X[12:]]
    ChainCRF().fit(sequences, [_Y[:7, 0], _Y[7:12, 0], _Y[12:, 0]]).save(path)


def _parser(path: Path) -> None:
    templates, pruning = Templates(size=4000, cutoff=1), Pruning(size=4000, epochs=1, folds=1)
    parser = Parser(templates=templates, pruning=pruning)
    parser.fit(toy_sentences(12, seed=1), epochs=1, progress=False)
    parser.save(path)


KINDS: dict[str, Saved] = {
    "system, BP": Saved(_system(lw.BP(iterations=5), decode.Max()).save, System.load, _ask),
    "system, TRW": Saved(
        _system(lw.TRW(iterations=5), decode.ApproximateF(decode.PerExample(), positive=(1,))).save, System.load, _ask
    ),
    "system, exact": Saved(_system(lw.Exact(), decode.SoftArgmax()).save, System.load, _ask),
    "system, mean field": Saved(_system(lw.MeanField(iterations=5), decode.Max()).save, System.load, _ask),
    "system, tied": Saved(_system(lw.Auto(), decode.Max(), _tied).save, System.load, _ask),
    "system, sparse": Saved(_sparse().save, System.load, _ask_sparse),
    "system, structured": Saved(_structured().save, System.load, lambda system: [system.predict_marginals().numpy()]),
    "policy": Saved(
        lambda path: budget.save(_stopping(), path),
        budget.load,
        lambda system: [system.predict_marginals({0: 1}).numpy()],
    ),
    "grid": Saved(_grid(), GridCRF.load, lambda model: [model.predict_marginals([_IMAGE])[0]]),
    "grid, convolution": Saved(
        _grid(unary=ConvUnary(2, 1, hidden=(3,)), pair=ContrastPair(2)),
        GridCRF.load,
        lambda model: [model.predict_marginals([_IMAGE])[0]],
    ),
    "tagger": Saved(
        lambda path: (
            Tagger("w[0] is_title[0] bias", learner=ChainPerceptron(2)).fit(_WORDS, _TAGS, progress=False).save(path)
        ),
        Tagger.load,
        lambda tagger: [tagger.predict(_WORDS), *tagger.predict_marginals(_WORDS)],
    ),
    "tagger, hashed": Saved(
        lambda path: (
            Tagger("w[0] bias", learner=ChainPerceptron(2), hashing=50).fit(_WORDS, _TAGS, progress=False).save(path)
        ),
        Tagger.load,
        lambda tagger: [tagger.predict(_WORDS), *tagger.predict_marginals(_WORDS)],
    ),
    "chains": Saved(_chains, ChainCRF.load, lambda model: [model.predict([_X[:7]])[0]]),
    "table": Saved(
        lambda path: MRFClassifier().fit(_X, _Y[:, 0]).save(path),
        MRFClassifier.load,
        lambda model: [model.predict_proba(_X)],
    ),
    "labels": Saved(
        lambda path: MultiLabel().fit(_X, _Y).save(path),
        MultiLabel.load,
        lambda model: [model.predict(_X), model.predict_marginals(_X)],
    ),
    "coref": Saved(
        lambda path: (
            Coref(rounds=1, steps=200, decode_steps=300)
            .fit(made_documents(2, seed=5, mentions=8), progress=False)
            .save(path)
        ),
        Coref.load,
        lambda model: model.predict(made_documents(1, seed=6, mentions=8)),
    ),
    "dedupe": Saved(
        lambda path: Dedupe().fit(made_records(40, seed=5)[0]).save(path),
        Dedupe.load,
        lambda model: [model.predict(made_records(40, seed=6)[0]).clusters],
    ),
    "parser": Saved(
        _parser,
        Parser.load,
        lambda parser: [tree.marginals for tree in parser.parse(toy_sentences(3, seed=2))],
    ),
}
