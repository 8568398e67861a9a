"""Model cards: written by every save, read without running anything, from files of before there were any, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typer.testing import CliRunner

import loopwise as lw
from loopwise import budget
from loopwise.apps import (
    ChainCRF,
    Coref,
    Decoder,
    Dedupe,
    GridCRF,
    MRFClassifier,
    MultiLabel,
    Parser,
    Table,
    Tagger,
)
from loopwise.apps.coref import made_documents
from loopwise.apps.decoder import Flips
from loopwise.apps.dedupe import made_records
from loopwise.apps.parser.options import Pruning, Templates
from loopwise.cli.main import app
from loopwise.learn import model_card
from loopwise.learn.files.card import training_card
from loopwise.learn.files.container import CARD, read_container
from loopwise.learn.files.saving import describe_system
from loopwise.learn.history import Epoch
from oracles.toy_language import toy_sentences


def trained() -> lw.System:
    graph = lw.chain(3)
    values = np.random.default_rng(0).integers(0, 2, (12, 1)).repeat(3, axis=1)
    examples = lw.Examples.of(graph, values, [lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.OUTPUT])
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=2, tolerance=0))
    sgd = lambda params: torch.optim.SGD(params, lr=0.5)  # noqa: E731
    lw.fit(system, examples[:8], lw.loss.MSE(), optimizer=sgd, epochs=2, dev=examples[8:], measure=lw.metric.Accuracy())
    return system


def test_a_trained_system_says_how(tmp_path: Path) -> None:
    path, system = tmp_path / "a.loopwise", trained()
    system.save(path, card={"what": "Copies of a coin", "licence": "Apache-2.0"})
    card = model_card(path)
    assert (
        card.what == "Copies of a coin" and card.version == lw.__version__ and card.notes == {"licence": "Apache-2.0"}
    )
    assert card.data == "8 examples, 4 for development" and card.budget.startswith("BP(iterations=2")
    assert card.weights == sum(param.numel() for param in system.parameters())
    assert card.figures["epochs"] == 2 and card.figures["trained for"] == "MSE"
    assert 0 <= card.figures["Accuracy on development data"] <= 1
    again = tmp_path / "b.loopwise"
    lw.System.load(path).save(again)
    assert again.read_bytes() == path.read_bytes()  # what is known is not lost
    shown = CliRunner().invoke(app, ["card", str(path)])
    assert shown.exit_code == 0 and "| data | 8 examples, 4 for development |" in shown.stdout
    told = CliRunner().invoke(app, ["card", str(path), "--json"])
    assert json.loads(told.stdout)["figures"]["epochs"] == 2


def test_estimators_have_cards(tmp_path: Path) -> None:
    tagger = lw.apps.Tagger().fit([["a", "b"]] * 3, [["X", "Y"]] * 3, progress=False)
    tagger.save(tmp_path / "t", notes={"lines": 9}, card={"data": "3 made-up sentences"})
    card = model_card(tmp_path / "t")
    assert (card.what, card.data, card.notes) == ("Tagger", "3 made-up sentences", {"lines": 9})
    assert lw.apps.Tagger.load(tmp_path / "t").predict([["a"]]) == [["X"]]


def test_cards_of_all_apps_say_data_figures_and_budget(tmp_path: Path) -> None:
    """What a user who opens a file years later asks; a loaded model that is saved again has not lost it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    y = (x[:, :2] > 0).astype(int)
    images = rng.random((3, 6, 6))
    decoder = Decoder([[1, 1, 0, 1], [0, 1, 1, 1]], 0.1, sweeps=3)
    parser = Parser(templates=Templates(size=4000, cutoff=1), pruning=Pruning(size=4000, epochs=1, folds=1))
    sentences = toy_sentences(12, seed=1)
    parser.fit(sentences, sentences[:4], epochs=1)
    records, ids = made_records(30, seed=0)
    models: dict[str, tuple[Any, str, str]] = {
        "Tagger": (Tagger().fit([["a", "b"]] * 3, [["X", "Y"]] * 3), "3 sentences, 6 words, 2 tags", "exact"),
        "ChainCRF": (ChainCRF().fit([x[:20], x[20:]], [y[:20, 0], y[20:, 0]]), "2 sequences, 30 elements", "exact"),
        "MultiLabel": (MultiLabel().fit(x, y), "30 examples, 2 labels, 3 features", "Automatic"),
        "MRFClassifier": (MRFClassifier(iterations=3).fit(x, y[:, 0]), "30 rows, 3 columns", "BP(iterations="),
        "Table": (Table().fit(x, y[:, 0]), "30 rows, 3 columns, 1 asked for", "BP(iterations=4"),
        "GridCRF": (GridCRF(iterations=2).fit(images, images > 0.5), "3 images, 108 pixels, 2 labels", "TRW("),
        "Coref": (Coref(rounds=1, steps=50).fit(made_documents(3, seed=0)), "3 documents", "a search of"),
        "Dedupe": (Dedupe().fit(records, ids=ids), "30 records", "pairs a record"),
        "Decoder": (decoder.fit(Flips(decoder.code), steps=3, dev=50), "shots drawn by Flips", "3 sweeps"),
        "Parser": (parser, f"12 sentences, {sum(map(len, sentences))} words", "BP(iterations=4"),
    }
    coref, decoded = models["Coref"][0], [p.numel() for leg in decoder.legs for p in leg.parameters()]
    trained_only = {
        "ChainCRF": models["ChainCRF"][0].weights_.vector.size,
        "Coref": coref.weights_.size + (0 if coref.bare_weights_ is None else coref.bare_weights_.size),
        "Decoder": sum(decoded),
    }
    for name, (model, data, inference) in models.items():
        path, again = tmp_path / name, tmp_path / f"{name} again"
        model.save(path, card={"licence": "Apache-2.0"})
        card = model_card(path)
        assert card.what == name and data in card.data and inference in card.budget, card
        assert card.figures["trained for"] and len(card.figures) > 1, card
        assert card.notes["licence"] == "Apache-2.0"
        assert card.weights == trained_only[name] if name in trained_only else card.weights > 0
        type(model).load(path).save(again)
        assert model_card(again) == card
    assert 0 <= model_card(tmp_path / "Parser").figures["UAS on development data"] <= 100


def test_figures_that_are_not_finite_are_left_out() -> None:
    history = lw.learn.History([Epoch(1, float("nan"), 0.0, dev=0.5)])
    assert training_card("x", "MSE", history)["figures"] == {
        "trained for": "MSE",
        "epochs": 1,
        "score on development data": 0.5,
    }


def test_cards_of_batches(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    y = (x[:, 0] > 0).astype(int)
    model = MRFClassifier(iterations=2)
    for rows in (slice(0, 10), slice(10, 30)):
        model.partial_fit(x[rows], y[rows], classes=[0, 1])
    model.save(tmp_path / "a")
    card = model_card(tmp_path / "a")
    assert card.data == "30 rows in 2 batches" and card.figures["batches"] == 2
    model.fit(x, y).partial_fit(x[:5], y[:5]).save(tmp_path / "b")
    card = model_card(tmp_path / "b")
    assert card.data == "30 rows, 3 columns" and card.figures["examples in batches"] == 5


def test_cards_of_systems_that_stop_by_a_policy(tmp_path: Path) -> None:
    policy = budget.Policy((budget.Bias(), budget.LargestChange(smooth=3.0)))
    system = trained()
    told = system.card
    system = lw.System(system.potentials, budget.Stopping(lw.BP(iterations=9), policy))
    system.card = told
    budget.save(system, tmp_path / "a", card={"licence": "Apache-2.0"})
    card = model_card(tmp_path / "a")
    assert card.data == "8 examples, 4 for development" and card.budget.startswith("Stopping(")
    budget.save(budget.load(tmp_path / "a"), tmp_path / "b")
    assert model_card(tmp_path / "b") == card


def test_a_file_without_a_card(tmp_path: Path) -> None:
    """As earlier versions wrote them; and one whose card is damaged."""
    system = trained()
    tensors, description = describe_system(system)
    import safetensors.torch

    for card in (None, "nonsense", {"weights": "many", "figures": 3}):
        told = {"loopwise": 1, **description, **({} if card is None else {CARD: card})}
        data = safetensors.torch.save({k: t.detach() for k, t in tensors.items()}, {"description": json.dumps(told)})
        (tmp_path / "old").write_bytes(data)
        found = model_card(tmp_path / "old")
        assert found.what == "System" and found.figures == {}
        assert found.to_markdown().startswith("# System\n")
        assert torch.equal(lw.System.load(tmp_path / "old").predict(), system.predict())
    assert read_container(tmp_path / "old")[1]["graph"]
