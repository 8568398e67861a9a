"""Features as people have them: dicts, lists of texts, columns of files; and one request by its own way."""

from __future__ import annotations

import pickle
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from loopwise.apps import ChainCRF, Tagger
from loopwise.apps.chain import NAMES, SAMPLERANK, ChainLikelihood, ChainPerceptron, ChainSVM, Posterior
from loopwise.apps.chain.features.items import Items
from loopwise.apps.chain.features.reader import FEW
from loopwise.formats.columns import read_tagged
from loopwise.formats.errors import FormatError
from oracles.tagger_text import names

WORDS, TAGS = names(80, seed=0)
OTHERS = names(40, seed=1)[0]


def as_dict(sentence: list[str], place: int) -> dict[str, Any]:
    word = sentence[place]
    found: dict[str, Any] = {"w": word, "is_title": word.istitle(), "len": len(word) / 10, "bias": 1.0}
    if place:
        found["before"] = {"w": sentence[place - 1].lower()}
    return found


def dicts(sentences: list[list[str]]) -> list[list[dict[str, Any]]]:
    return [[as_dict(sentence, place) for place in range(len(sentence))] for sentence in sentences]


def lists(sentences: list[list[str]]) -> list[list[list[str]]]:
    return [
        [[f"w={word}", "bias", *(["title"] if word.istitle() else [])] for word in sentence] for sentence in sentences
    ]


@pytest.mark.parametrize("given", [dicts, lists])
@pytest.mark.parametrize("kind", [Tagger, ChainCRF])
def test_dicts_and_lists_of_features(given: Any, kind: Any, tmp_path: Path) -> None:
    model = kind().fit(given(WORDS), TAGS)
    said = [list(row) for row in model.predict(given(WORDS))]
    right = sum(one == two for row, gold in zip(said, TAGS, strict=True) for one, two in zip(row, gold, strict=True))
    assert right > 0.95 * sum(map(len, TAGS))
    model.save(tmp_path / "m.loopwise")
    again = kind.load(tmp_path / "m.loopwise")
    assert [list(row) for row in again.predict(given(OTHERS))] == [list(row) for row in model.predict(given(OTHERS))]
    with pytest.raises(ValueError, match="trained on"):
        again.predict([["Ann"]] if kind is Tagger else [np.zeros((2, 3))])


def test_tagger_and_chains_of_dicts_are_one_model() -> None:
    """The same features, the same likelihood, the same probabilities. ChainCRF adds a constant to the "bias": two equal
    features, which are one of value sqrt 2."""
    alike = {
        sentences: [[{**token, "bias": 2**0.5} for token in sentence] for sentence in dicts(words)]
        for sentences, words in (("train", WORDS), ("test", OTHERS))
    }
    learner = ChainLikelihood(l2=1.0, tolerance=1e-12, iterations=1000)
    tagger = Tagger(learner=learner, decoder=Posterior(valid=False)).fit(alike["train"], TAGS)
    crf = ChainCRF(standardize=False, tolerance=1e-12, iterations=1000).fit(dicts(WORDS), TAGS)
    order = [crf.classes_.tolist().index(label) for label in tagger.labels_]
    for one, two in zip(tagger.predict_marginals(alike["test"]), crf.predict_marginals(dicts(OTHERS)), strict=True):
        np.testing.assert_allclose(one, two[:, order], atol=1e-4)


def test_values_of_features_count() -> None:
    """A feature with a value is that many times its weight."""
    items = Items.of([[{"a": 2.5, "b": True, "c": False, "d": "x", "e": None}], [["f"]]])
    assert items.names == ("a", "b", "d:x", "f") and items.value.tolist() == [2.5, 1.0, 1.0, 1.0]
    tagger = Tagger().fit([[{"x": 1.0}, {"x": -1.0}]] * 5, [["P", "N"]] * 5)
    small, large = (tagger.predict_marginals([[{"x": value}]])[0][0] for value in (0.1, 3.0))
    place = tagger.labels_.index("P")
    assert 0.5 < small[place] < large[place]
    for learner in (ChainPerceptron(2), ChainSVM()):
        with pytest.raises(ValueError, match="features that are there or not, and some have values"):
            Tagger(learner=learner).fit([[{"x": 0.5}]], [["P"]])
        assert Tagger(learner=learner).fit([[{"x": "a"}, {"x": "b"}]], [["P", "N"]]).predict([[{"x": "b"}]]) == [["N"]]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([{"a": float("inf")}], "feature 'a' of token 0 of sequence 0 is inf; give a finite number"),
        ([{"a": object()}], "feature 'a' of token 0 of sequence 0 is <object"),
        ([["a"], "b"], "token 1 of sequence 0 is 'b'; give every token as a dict or a list"),
        ([["a", 3]], "token 0 of sequence 0 lists the feature 3; listed features are texts"),
    ],
)
def test_features_without_meaning(tokens: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Tagger().fit([tokens], [["A"] * len(tokens)])


def test_forms_that_are_almost_right() -> None:
    tagger = Tagger("w[0]").fit(WORDS, TAGS)
    with pytest.raises(ValueError, match=r"there is no file 'Ann saw Bob'; a text is given as lists of words"):
        tagger.predict("Ann saw Bob")
    with pytest.raises(ValueError, match="give each sequence as a list of dicts"):
        ChainCRF().fit([{"a": 1.0}, {"b": 1.0}], ["x", "y"])


# --- Columns ---------------------------------------------------------------------------------------------------------


def write(path: Path, rows: list[list[tuple[str, ...]]]) -> Path:
    path.write_text("\n\n".join("\n".join(" ".join(row) for row in sentence) for sentence in rows) + "\n")
    return path


ROWS = [
    [("the", "DT", "O"), ("Smiths", "NNP", "B-PER"), ("ran", "VB", "O")],
    [("Rome", "NNP", "B-PER"), ("saw", "VB", "O"), ("dogs", "NN", "O")],
]


def test_columns_of_files_in_templates(tmp_path: Path) -> None:
    """Word, part of speech, tag: the second column is looked at by number, by the name that the file gives it, or by
    the key of a dict, with the same answers."""
    plain = write(tmp_path / "a.conll", ROWS)
    by_number = Tagger("column2[0] column2[-1]|column2[0]", learner=ChainLikelihood(l2=0.1)).fit(plain)
    assert by_number.predict(write(tmp_path / "b.conll", [[("x", "DT", "O"), ("y", "NNP", "O")]])) == [["O", "B-PER"]]
    tokens = [[{"w": word, "pos": pos} for word, pos, _ in sentence] for sentence in ROWS]
    tags = [[row[-1] for row in sentence] for sentence in ROWS]
    by_key = Tagger("pos[0] pos[-1]|pos[0]", learner=ChainLikelihood(l2=0.1)).fit(tokens, tags)
    for one, two in zip(by_key.predict_marginals(tokens), by_number.predict_marginals(plain), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)
    by_key.save(tmp_path / "m.loopwise")
    assert Tagger.load(tmp_path / "m.loopwise").predict([[{"w": "x", "pos": "NNP"}]]) == [["B-PER"]]
    text = read_tagged(plain, extra=["column2"])
    assert text.columns == {"column2": ["DT", "NNP", "VB", "NNP", "VB", "NN"]}
    assert by_number.predict(text) == by_number.predict(plain)


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.conll", ROWS)
    with pytest.raises(FormatError, match="does not name its columns, so there is none called 'pos'"):
        Tagger("pos[0]").fit(plain)
    with pytest.raises(FormatError, match="the line has 3 columns, column 7 is asked for"):
        Tagger("column7[0]").fit(plain)
    with pytest.raises(ValueError, match="templates look at 'pos', which the sentences do not have"):
        Tagger("pos[0]").fit([["a"]], [["O"]])
    with pytest.raises(ValueError, match="which no token has; its keys are"):
        Tagger("pos[0]").fit([[{"w": "a"}]], [["O"]])


# --- One request -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("templates", [NAMES, SAMPLERANK + " all_upper|w[0] bias|w[-1]|last bias|w[0]", "bias"])
@pytest.mark.parametrize("hashing", [None, 64])
def test_few_sentences_have_the_scores_of_many(templates: str, hashing: int | None) -> None:
    tagger = Tagger(templates, hashing=hashing, learner=ChainLikelihood(iterations=20)).fit(WORDS, TAGS)
    sentences = [*OTHERS[:9], [], ["Unheard-of", "1984", "ALL", "!"], ["X"]]
    for _ in range(2):  # words unknown, then remembered
        for sentence in sentences:
            few = tagger._few([sentence])
            text, problem = tagger.prepared([sentence])
            many = tagger._scored(problem, tagger.weights_, text)
            assert few is not None
            np.testing.assert_allclose(few.unary, many.unary, atol=1e-12)
            np.testing.assert_array_equal(few.pair, many.pair)
    assert tagger.predict(sentences) == tagger.predict(sentences * (FEW // 8))[: len(sentences)]
    assert pickle.loads(pickle.dumps(tagger)).predict(sentences) == tagger.predict(sentences)


def test_words_are_forgotten_when_there_are_too_many() -> None:
    tagger = Tagger("w[0] suffix2[0] bias").fit(WORDS, TAGS)
    first = tagger.predict([["Ann", "saw"]])
    reader = tagger._kept_reader[1]
    reader._capacity = 20
    reader._known = reader._forgotten()
    for number in range(40):
        tagger.predict([[f"word{number}"]])
        assert len(reader._known.number) <= 18
    assert tagger.predict([["Ann", "saw"]]) == first


def test_threads_may_ask_at_once() -> None:
    tagger = Tagger().fit(WORDS, TAGS)
    expected = Tagger.predict(tagger, OTHERS * 20)[: len(OTHERS)]
    found: dict[int, Any] = {}
    threads = [
        Thread(target=lambda n=n: found.__setitem__(n, [tagger.predict([row])[0] for row in OTHERS])) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answers == expected for answers in found.values()) and len(found) == 4
    before = tagger.predict([WORDS[0]])
    tagger.fit(WORDS, [["O"] * len(row) for row in WORDS])  # what was kept was the other model's
    assert tagger.predict([WORDS[0]]) != before
