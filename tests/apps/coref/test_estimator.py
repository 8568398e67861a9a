"""Coref end to end on made documents: it learns, repeats itself, saves, and refuses what is wrong."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loopwise import walk
from loopwise.apps.coref import Coref, CorefReport, made_documents, singletons
from loopwise.apps.coref.estimator import without_annotation
from loopwise.apps.coref.features import Featuriser
from loopwise.formats import FormatError
from loopwise.formats.coref import CorefDocument, MentionSpan, read_coref, write_coref
from loopwise.learn.files.container import read_container, write_container
from oracles.coref_cases import TEST, TRAIN


def test_without_features_of_entities_or_types() -> None:
    options = {"setwise": False, "links": False, "types": False}
    simple = Coref(rounds=1, steps=1500, decode_steps=walk.Sweeps(80), **options).fit(TRAIN)  # type: ignore[arg-type]
    assert simple.featuriser_.types == () and len(simple.weights_) == simple.featuriser_.starts[-1]
    alone = CorefReport.of(TEST, [singletons(document) for document in TEST])
    assert simple.evaluate(TEST).mean.b_cubed > alone.mean.b_cubed


def test_a_stopped_training_goes_on(fitted: Coref, tmp_path: Path) -> None:
    path = tmp_path / "run"
    Coref(rounds=2, steps=1500, decode_steps=3000, seed=3).fit(TRAIN, progress=False, checkpoint=path)
    again = Coref(rounds=3, steps=1500, decode_steps=3000, seed=3).fit(TRAIN, progress=False, checkpoint=path)
    assert np.array_equal(again.weights_, fitted.weights_) and again.training_.tally == fitted.training_.tally
    with pytest.raises(FormatError, match="its documents was"):
        Coref(rounds=3, steps=1500, seed=3).fit(TRAIN[1:], progress=False, checkpoint=path)


def test_documents_without_trees_have_weights_of_their_own(tmp_path: Path) -> None:
    """Those of a training on words and brackets alone; documents with trees are answered as without that training."""
    options: dict[str, Any] = {"rounds": 1, "steps": 800, "decode_steps": 1500, "seed": 3}
    bare, bare_test = ([without_annotation(one) for one in part] for part in (TRAIN, TEST))
    assert not bare[0].trees and not bare[0].tags and {mention.kind for mention in bare[0].mentions} == {""}
    both = Coref(**options).fit(TRAIN, progress=False, checkpoint=tmp_path / "run")
    first = Coref(**options, bare=False).fit(TRAIN, progress=False)
    second = Coref(**options).fit_prepared(both.featuriser_, [both.featuriser_(one) for one in bare], progress=False)
    assert np.array_equal(both.weights_, first.weights_) and first.bare_weights_ is None
    assert both.bare_weights_ is not None and np.array_equal(both.bare_weights_, second.weights_)
    assert not np.array_equal(first.weights_, second.weights_) and (tmp_path / "run-bare").exists()
    both.save(tmp_path / "m.loopwise")
    for model in (both, Coref.load(tmp_path / "m.loopwise")):
        for part, other in ((TEST, first), (bare_test, second)):
            for found, right in zip(model.predict(part), other.predict(part), strict=True):
                assert np.array_equal(found, right)
            (table,), (known,) = (one.predict_marginals(part[:1], samples=40) for one in (model, other))
            assert np.array_equal(table, known)
        mixed = model.predict([TEST[0], bare_test[1]])
        assert np.array_equal(mixed[0], first.predict(TEST[:1])[0]) and len(mixed[1]) == len(TEST[1].mentions)
    assert Coref(**options).fit(bare, progress=False).bare_weights_ is None  # nothing is left to take away


def test_the_same_seed_gives_the_same(fitted: Coref) -> None:
    again = Coref(rounds=3, steps=1500, decode_steps=3000, seed=3).fit(TRAIN, progress=False)
    assert np.array_equal(again.weights_, fitted.weights_)
    for one, two in zip(again.predict(TEST), fitted.predict(TEST), strict=True):
        assert np.array_equal(one, two)
    other = Coref(rounds=3, steps=1500, seed=4).fit(TRAIN, progress=False)
    assert not np.array_equal(other.weights_, fitted.weights_)


def test_weights_of_documents() -> None:
    """A document that counts twice is walked over twice a round."""
    options = {"rounds": 2, "steps": 200, "decode_steps": 300}
    weighted = Coref(**options).fit(TRAIN[:3], sample_weight=[1, 2, 0], progress=False)  # type: ignore[arg-type]
    repeated = Coref(**options).fit([TRAIN[0], TRAIN[1], TRAIN[1]], progress=False)  # type: ignore[arg-type]
    assert np.array_equal(weighted.weights_, repeated.weights_)
    assert weighted.training_.documents == 3
    with pytest.raises(ValueError, match="Coref takes whole numbers as sample_weight"):
        Coref().fit(TRAIN[:2], sample_weight=[0.5, 1])


def test_names_of_entities_are_not_looked_at(fitted: Coref) -> None:
    """Predictions are the same whatever the file says the entities are."""
    blind = [document.with_entities(range(len(document.mentions))) for document in TEST]
    for one, two in zip(fitted.predict(blind), fitted.predict(TEST), strict=True):
        assert np.array_equal(one, two)


def test_saved_and_loaded(fitted: Coref, tmp_path: Path) -> None:
    path = tmp_path / "m.loopwise"
    fitted.save(path)
    loaded = Coref.load(path)
    assert np.array_equal(loaded.weights_, fitted.weights_) and loaded.decode_steps == 3000
    for one, two in zip(loaded.predict(TEST), fitted.predict(TEST), strict=True):
        assert np.array_equal(one, two)
    tensors, description = read_container(path)
    write_container(tmp_path / "bad", {**tensors, "weights": torch.zeros(3)}, description)
    with pytest.raises(FormatError, match="shape"):
        Coref.load(tmp_path / "bad")
    write_container(tmp_path / "old", tensors, {**description, "templates": ["x"]})
    with pytest.raises(FormatError, match="train it again"):
        Coref.load(tmp_path / "old")
    write_container(tmp_path / "other", tensors, {**description, "app": "Tagger"})
    with pytest.raises(FormatError, match="holds a Tagger, not a Coref"):
        Coref.load(tmp_path / "other")


@pytest.mark.parametrize("steps", [7, walk.Sweeps(80), walk.Sweeps(80, most=500)])
def test_steps_of_decoding_are_saved_whole(fitted: Coref, tmp_path: Path, steps: int | walk.Sweeps) -> None:
    other = copy.copy(fitted)
    other.decode_steps = steps
    other.save(tmp_path / "steps.loopwise")
    assert Coref.load(tmp_path / "steps.loopwise").decode_steps == steps


def test_files(fitted: Coref, tmp_path: Path) -> None:
    write_coref(tmp_path / "in.conllu", TEST)
    assert fitted.resolve_file(tmp_path / "in.conllu", tmp_path / "out.conllu") == len(TEST)
    found = read_coref(tmp_path / "out.conllu")
    for document, answer in zip(found, fitted.predict(tmp_path / "in.conllu"), strict=True):
        assert document.entities() == answer.tolist()
    assert [document.words for document in found] == [document.words for document in TEST]


def test_marginals_agree_with_the_best_answer(fitted: Coref) -> None:
    (table,) = fitted.predict_marginals(TEST[:1], samples=200)
    answer = fitted.predict(TEST[:1])[0]
    together = answer[:, None] == answer[None, :]
    assert np.allclose(table, table.T) and np.allclose(np.diag(table), 1) and (table >= 0).all() and (table <= 1).all()
    assert table[together].mean() > table[~together].mean() + 0.3


def test_documents_without_mentions(fitted: Coref) -> None:
    empty = CorefDocument("empty", ("Hello",), (0, 1), ())
    single = CorefDocument("single", ("Hello",), (0, 1), (MentionSpan(0, 0, "1"),))
    assert [answer.tolist() for answer in fitted.predict([empty, single])] == [[], [0]]
    assert fitted.evaluate([empty, single]).mean.b_cubed == 1.0
    with pytest.raises(ValueError, match="no mentions"):
        fitted.evaluate([empty])
    with pytest.raises(ValueError, match="two mentions"):
        Coref().fit([empty, single])


def test_bad_options_and_use() -> None:
    with pytest.raises(ValueError, match="rounds must be a whole number of at least 1"):
        Coref(rounds=0)
    with pytest.raises(ValueError, match="not fitted"):
        Coref().predict(TEST)
    with pytest.raises(ValueError, match="noise"):
        made_documents(1, noise=2.0)


def test_features_of_moves_add_up() -> None:
    """A walk's differences on real features are those of whole clusterings, entity features included."""
    featuriser = Featuriser.of(TRAIN)
    model, document = featuriser.model(), featuriser(made_documents(1, seed=8, mentions=9)[0])
    random = walk.Stream(0)
    world = model.world(document, walk.Start.TRUTH, random)
    proposal = walk.MentionMover()
    for _ in range(25):
        move = proposal.propose(walk.Walker(model, world, (), 1.0, random)).move
        if move is None:
            continue
        before, change = model.features(world), model.difference(world, move)
        move.apply(world)
        after = model.features(world)
        for key in {*before, *after, *change}:
            assert after.get(key, 0.0) - before.get(key, 0.0) == pytest.approx(change.get(key, 0.0))


def test_what_is_no_document_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"document 0 must be one of lw.formats.coref, or give the path of a file, not 'x'"
    ):
        Coref().fit(["x"])  # type: ignore[list-item]
