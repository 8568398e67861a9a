"""Every loader of saved models and checkpoints, with small models and what must hold of whatever was loaded.

In: a folder to train in. Out: a :class:`~fuzz.readers.Kind` for each: a model that loads must answer, and its marginals
must be finite and sum to one. A checkpoint that is taken must lead to weights that are finite.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import loopwise as lw
from fuzz.mutations import spoil_model
from fuzz.readers import Kind, must
from loopwise import apps, budget, decode, walk
from loopwise.apps.coref import made_documents
from loopwise.formats.conllu import Sentence, make_sentence
from loopwise.formats.table import Vocabulary

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role
SLACK = 1e-3  # marginals of float32 models that were mutated into the absurd still sum to one within this


def model_kinds(folder: Path) -> list[Kind]:
    """All loaders. Training takes some seconds, more where kernels are not compiled yet."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _kind("System", folder, systems(), lw.System.load, check_system, 3),
        _kind("budget", folder, [stopping_system()], budget.load, check_system, 1, save=budget.save),
        _kind("MRFClassifier", folder, [trained_mrf()], apps.MRFClassifier.load, check_mrf, 1),
        _kind("ChainCRF", folder, [trained_chain()], apps.ChainCRF.load, check_chain, 1),
        _kind("Tagger", folder, trained_taggers(), apps.Tagger.load, check_tagger, 1),
        _kind("MultiLabel", folder, [trained_labels()], apps.MultiLabel.load, check_labels, 1),
        _kind("GridCRF", folder, [trained_grid()], apps.GridCRF.load, check_grid, 0.5),
        _kind("Coref", folder, [trained_coref()], apps.Coref.load, check_coref, 0.3),
        _kind("Parser", folder, trained_parsers(), apps.Parser.load, check_parser, 0.3),
        _resumed("fit checkpoint", folder, resume_fit, 1),
        _resumed("walk checkpoint", folder, resume_walk, 1),
        _resumed("MultiLabel checkpoint", folder, resume_labels, 0.5),
        _resumed("Tagger checkpoint", folder, resume_tagger, 0.5),
    ]


def _kind(
    name: str,
    folder: Path,
    models: list[Any],
    load: Callable[[Path], Any],
    check: Callable[[Any], None],
    weight: float,
    save: Callable[[Any, Path], None] | None = None,
) -> Kind:
    """A kind whose seeds are ``models`` as they are saved."""
    seeds = []
    for model in models:
        path = folder / "seed.loopwise"
        if save is None:
            model.save(path)
        else:
            save(model, path)
        check(load(path))
        seeds.append(path.read_bytes())
    return Kind(
        name, ".loopwise", tuple(seeds), spoil_model, load, lambda model, scratch: check(model), weight, lenient=True
    )


def _resumed(name: str, folder: Path, resume: Callable[[Path], Any], weight: float) -> Kind:
    """A kind whose seed is the checkpoint of a training; to read it is to go on with that training."""
    path = folder / "seed.checkpoint"
    path.unlink(missing_ok=True)
    check_finite(resume(path))
    seed = path.read_bytes()
    path.unlink()
    return Kind(
        name, ".checkpoint", (seed,), spoil_model, resume, lambda weights, scratch: check_finite(weights), weight
    )


def check_finite(weights: Any) -> None:
    must(bool(np.isfinite(np.asarray(weights)).all()), "a weight is not finite")


def check_distributions(marginals: Any, what: str = "a marginal") -> None:
    """Rows that are finite, not negative, and sum to one."""
    rows = np.asarray(marginals, dtype=np.float64)
    must(bool(np.isfinite(rows).all()), f"{what} is not finite")
    must(bool((rows >= -SLACK).all()), f"{what} is negative")
    must(bool((np.abs(rows.sum(-1) - 1) < SLACK).all()), f"{what} does not sum to one")


# --- Systems ---------------------------------------------------------------------------------------------------------

GRAPH = lw.FactorGraph([2, 3, 2, 2], {"a": [[0, 1]], "b": [[1, 2]], "ring": [[0, 2], [2, 3]], "free": [[3]]})


def systems() -> list[lw.System]:
    """Several methods, decoders and potentials."""
    tables = lw.TablePotentials.random(GRAPH, seed=0)
    names = Vocabulary(("p", "q", "r", "s"), (("no", "yes"), ("x", "y", "z"), ("0", "1"), ("0", "1")))
    voted = decode.MBR(lw.metric.HammingError(reduction=lw.loss.Each()), decode.Independent(), count=5)
    return [
        lw.System(tables, lw.BP(iterations=3, tolerance=0.0), decode.Max(), vocabulary=names, roles=[0, 1, 1, 2]),
        lw.System(tables, lw.BP(iterations=4, damping=0.2, schedule=lw.Sequential()), decode.SoftArgmax(0.7)),
        lw.System(tables, lw.TRW(iterations=3, tolerance=0.0, rho=0.5)),
        lw.System(tables, lw.MeanField(iterations=20), decode.ApproximateF(decode.PerExample(), positive=[1])),
        lw.System(
            lw.potentials.TiedTables.random(GRAPH, {"ring": [1, 0]}, seed=0, dtype=torch.float32), lw.BP(iterations=2)
        ),
        lw.System(tables, lw.Exact(), voted),
        structured_system(),
    ]


def structured_system() -> lw.System:
    structured = {"one": (lw.ExactlyOne(3), np.arange(3)), "tree": (lw.ProjectiveTree(2), np.arange(4))}
    graph = lw.FactorGraph([2] * 4, {"pair": [[0, 1]]}, structured)  # type: ignore[arg-type]
    return lw.System(lw.TablePotentials(graph), lw.BP(iterations=2, tolerance=0.0))


def stopping_system() -> lw.System:
    policy = budget.Policy((budget.Bias(), budget.LargestChange(smooth=3.0), budget.Confident(0.8)))
    inference = budget.Stopping(lw.BP(iterations=4), policy)
    return lw.System(
        lw.TablePotentials.random(lw.graph.complete(4), seed=0), inference, decode.Max(), roles=[0, 1, 1, 2]
    )


def check_system(system: lw.System) -> None:
    with torch.no_grad():
        beliefs = system.beliefs()
        system.predict()
    start = system.graph.layout.state_start
    for variable in range(system.graph.variables):
        check_distributions(beliefs.states[..., start[variable] : start[variable + 1]])


# --- Applications ----------------------------------------------------------------------------------------------------

ROWS = [["a", 1.0], ["b", 2.0], ["a", 3.5], ["b", -1.0], ["a", 0.5], ["b", 2.5]]
ANSWERS = ["yes", "no", "yes", "no", "yes", "no"]
FEATURES = np.random.default_rng(0).normal(size=(12, 3))
LABELS = (FEATURES @ np.array([[1.0, -1.0], [0.5, 1.0], [0.0, 1.0]]) > 0).astype(np.int64)
WORDS = [["Ann", "saw", "Rome"], ["Bob", "Smith", "ran"], ["the", "dog", "near", "Oslo"]]
TAGS = [["B-PER", "O", "B-LOC"], ["B-PER", "I-PER", "O"], ["O", "O", "O", "B-LOC"]]
PICTURE = np.where(np.indices((5, 6)).sum(0) % 5 < 2, 0.8, 0.1)


def trained_mrf() -> apps.MRFClassifier:
    rows = np.array(ROWS, dtype=object)
    return apps.MRFClassifier(inference=lw.BP(iterations=3), iterations=2, bins=3).fit(rows, ANSWERS, progress=False)


def check_mrf(model: apps.MRFClassifier) -> None:
    rows = np.array(ROWS, dtype=object)
    found = model.predict_proba(rows)
    for each in [found] if isinstance(found, np.ndarray) else found:
        check_distributions(each)
    model.predict(rows)


def trained_chain() -> apps.ChainCRF:
    sequences = [FEATURES[:4], FEATURES[4:7], FEATURES[7:]]
    labels = [["x", "y", "x", "z"], ["y", "y", "z"], ["x", "x", "y", "z", "z"]]
    return apps.ChainCRF(iterations=3).fit(sequences, labels, progress=False)


def check_chain(model: apps.ChainCRF) -> None:
    for rows in model.predict_marginals([FEATURES[:4], FEATURES[4:]]):
        check_distributions(rows)
    model.predict([FEATURES[:2]])


def trained_taggers() -> list[apps.Tagger]:
    learner = _likelihood(3)
    plain = apps.Tagger("w[0] lower[-1] bias", learner=learner).fit(WORDS, TAGS, progress=False)
    hashed = apps.Tagger("w[0] bias", "w[0] bias", learner=learner, hashing=16).fit(WORDS, TAGS, progress=False)
    return [plain, hashed]


def _likelihood(iterations: int) -> Any:
    from loopwise.apps.chain import ChainLikelihood

    return ChainLikelihood(iterations=iterations)


def check_tagger(model: apps.Tagger) -> None:
    for rows in model.predict_marginals(WORDS):
        check_distributions(rows)
    model.predict(WORDS)


def trained_labels() -> apps.MultiLabel:
    return apps.MultiLabel(_walk_learner()).fit(FEATURES, LABELS, progress=False)


def _walk_learner() -> Any:
    from loopwise.apps.multilabel import LabelSampleRankSVM

    return LabelSampleRankSVM(epochs=2)


def check_labels(model: apps.MultiLabel) -> None:
    marginals = np.asarray(model.predict_marginals(FEATURES))
    check_distributions(np.stack([marginals, 1 - marginals], -1))
    model.predict(FEATURES)


def trained_grid() -> apps.GridCRF:
    model = apps.GridCRF(states=2, iterations=2, inference=lw.TRW(iterations=10, rho=0.5, schedule=lw.Sequential()))
    return model.fit([PICTURE], [(PICTURE > 0.5).astype(np.int64)], progress=False)


def check_grid(model: apps.GridCRF) -> None:
    check_distributions(model.predict_marginals([PICTURE])[0])


def trained_coref() -> apps.Coref:
    documents = made_documents(2, seed=1, mentions=6)
    return apps.Coref(rounds=1, steps=50, decode_steps=50).fit(documents, progress=False)


def check_coref(model: apps.Coref) -> None:
    documents = made_documents(1, seed=2, mentions=6)
    entities = model.predict(documents)
    must(len(entities) == 1, "documents are missing")
    check_finite(model.weights_)


def tiny_sentences() -> list[Sentence]:
    relations = ["det", "nsubj", "root", "punct"]
    forms = [["the", "cat", "sees", "."], ["a", "dog", "runs", "."], ["the", "dog", "sees", "."]]
    tags = ["DET", "NOUN", "VERB", "PUNCT"]
    return [make_sentence(words, tags, heads=[2, 3, 0, 3], relations=relations) for words in forms]


def trained_parsers() -> list[apps.Parser]:
    from loopwise.apps.parser.options import Templates

    templates, found = Templates(size=500, cutoff=1), []
    for factors, inference in ((("grandparent", "sibling"), lw.BP(iterations=2, tolerance=0.0)), ((), lw.Exact())):
        parser = apps.Parser(factors, inference, templates=templates, pruning=None)
        parser.fit(tiny_sentences(), epochs=1, rate=0.1, threads=1)
        found.append(parser)
    return found


def check_parser(parser: apps.Parser) -> None:
    sentences = tiny_sentences()
    beliefs, _ = parser.beliefs(sentences, threads=1)
    must(bool(np.isfinite(beliefs).all()) and bool((beliefs >= -SLACK).all()), "a belief is not finite")
    must(bool((beliefs <= 1 + SLACK).all()), "a belief is above one")
    for tree, sentence in zip(parser.parse(sentences, threads=1), sentences, strict=True):
        must(all(0 <= head <= len(sentence) for head in tree.heads), "a head is out of range")


# --- Checkpoints -----------------------------------------------------------------------------------------------------


def resume_fit(path: Path) -> Any:
    """Two epochs of fitting tables; a checkpoint of both leaves nothing to do but to load it."""
    graph = lw.chain(3)
    system = lw.System(lw.TablePotentials.random(graph, seed=5, scale=0.3), lw.BP(iterations=2, tolerance=0.0))
    examples = lw.Examples.of(graph, np.arange(18).reshape(6, 3) % 2, [OUTPUT, OUTPUT, INPUT])
    optimizer = lambda params: torch.optim.Adam(params, lr=0.1)  # noqa: E731
    lw.fit(system, examples, lw.loss.MSE(), optimizer=optimizer, batch=6, epochs=2, checkpoint=path, progress=False)
    return np.concatenate([weight.detach().numpy().reshape(-1) for weight in system.parameters()])


def resume_walk(path: Path) -> Any:
    return _walker().fit(_walk_documents(), steps=10, epochs=2, checkpoint=path).weights


def _walker() -> walk.Learner:
    from oracles.walk_cases import chain_model

    return walk.SampleRank(chain_model(), walk.GibbsChange(), metric=lw.metric.Accuracy(), step=walk.AdaGrad())


def _walk_documents() -> list[Any]:
    from oracles.walk_cases import chain_documents

    return chain_documents((3, 2))


def resume_labels(path: Path) -> Any:
    model = apps.MultiLabel(_walk_learner()).fit(FEATURES, LABELS, progress=False, checkpoint=path)
    return model.weights_.vector


def resume_tagger(path: Path) -> Any:
    model = apps.Tagger("w[0] bias", learner=_likelihood(3)).fit(WORDS, TAGS, progress=False, checkpoint=path)
    return model.weights_.vector
