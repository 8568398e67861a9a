"""Model cards: written by every save, read without running anything, from files of before there were any, too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from typer.testing import CliRunner

import loopwise as lw
from loopwise.cli.main import app
from loopwise.learn import model_card
from loopwise.learn.files.container import CARD, read_container
from loopwise.learn.files.saving import describe_system


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
