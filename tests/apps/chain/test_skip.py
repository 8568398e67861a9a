"""Links between equal words: as users ask for them, against enumeration; files, evidence, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps import ChainCRF, Tagger
from loopwise.apps.chain import (
    ChainLikelihood,
    ChainPerceptron,
    Documents,
    Posterior,
    Skip,
    SoftmaxMargin,
)
from loopwise.apps.chain.features.sequences import Sequences
from loopwise.apps.chain.features.text import Text
from loopwise.apps.chain.skip import links_of, sequence_links
from loopwise.notices import ImpossibleError
from oracles.skip_cases import DOCUMENTS, SKIP, TAGS, TEMPLATES, WORDS, enumerated_marginals, fitted


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return fitted()


def mentions(count: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences with two mentions of one name, person or place, of which only one is told by the word before it."""
    rng = np.random.default_rng(seed)
    words, tags = [], []
    for _ in range(count):
        name, kind = str(rng.choice(["Austin", "Florence", "Jordan", "Paris"])), str(rng.choice(["PER", "LOC"]))
        told = (["Mr" if kind == "PER" else "in", name], ["O", kind])
        other = (["and", name], ["O", kind])
        parts = [told, other] if rng.integers(2) else [other, told]
        words.append(parts[0][0] + ["then"] + parts[1][0])
        tags.append(parts[0][1] + ["O"] + parts[1][1])
    return words, tags


def test_links_carry_tags_where_a_chain_can_only_guess() -> None:
    """What a user types: a skip template, and nothing else."""
    train, test = mentions(60, 0), mentions(60, 1)
    templates = "w[0] w[-1]|is_title[0]"
    plain = Tagger(templates).fit(*train, progress=False).score(*test)
    linked = Tagger(templates, skip="w[0]|is_title[0]").fit(*train, progress=False)
    assert plain < 0.95 and linked.score(*test) == 1.0
    marginals, status = linked.predict_marginals(test[0], status=True)
    assert not status.exact and status.converged
    assert all(np.allclose(rows.sum(axis=1), 1.0) for rows in marginals)


def test_marginals_and_likelihoods_are_those_of_enumeration(tagger: Tagger) -> None:
    _, problem = tagger.prepared(DOCUMENTS)
    marginals, status = tagger.predict_marginals(DOCUMENTS, status=True)
    np.testing.assert_allclose(
        np.concatenate(marginals), enumerated_marginals(problem, tagger.weights_), rtol=1e-9, atol=1e-12
    )
    assert status.exact
    assert tagger.log_likelihood(DOCUMENTS, TAGS).shape == (2,)  # documents


def test_given_tags_reach_through_links(tagger: Tagger) -> None:
    evidence = [[None, None, "PER"], [None, None], [None] * 2, [None] * 3]
    _, problem = tagger.prepared(DOCUMENTS)
    allowed = np.ones((problem.tokens, problem.states), dtype=np.bool_)
    allowed[2] = np.array(tagger.labels_) == "PER"
    found = np.concatenate(tagger.predict_marginals(DOCUMENTS, evidence=evidence))
    np.testing.assert_allclose(found, enumerated_marginals(problem, tagger.weights_, allowed), rtol=1e-9, atol=1e-12)
    per = tagger.labels_.index("PER")
    before = tagger.predict_marginals(DOCUMENTS)[1][0, per]
    assert found[3, per] > before + 0.1  # the other mention of Rome, in the next sentence
    apart = tagger.predict_marginals(WORDS, evidence=evidence)[1][0, per]  # without documents there is no such link
    assert apart < found[3, per]


def test_a_text_without_links_is_exact_and_what_the_chain_says() -> None:
    tagger = fitted(SKIP)
    sentences = [["Ann", "ran"], ["dogs"], []]
    marginals, status = tagger.predict_marginals(sentences, status=True)
    assert status.exact
    chain = Tagger(TEMPLATES)
    chain.__dict__.update({name: value for name, value in tagger.__dict__.items() if name.endswith("_")})
    chain.weights_ = type(tagger.weights_)(tagger.weights_.unary, tagger.weights_.pair[:1], tagger.weights_.vector)
    for one, two in zip(marginals, chain.predict_marginals(sentences), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    assert tagger.predict(sentences) == chain.predict(sentences)
    assert tagger.predict([]) == []


def test_decoders_and_the_rules_of_tags() -> None:
    words = [["Ann", "Lee", "met", "Ann", "Lee"], ["Lee", "ran", "to", "Lee"]]
    tags = [["B-PER", "I-PER", "O", "B-PER", "I-PER"], ["B-PER", "O", "O", "B-PER"]]
    for decoder in (None, Posterior()):
        tagger = Tagger("w[0] bias", skip=SKIP, decoder=decoder, learner=ChainLikelihood(l2=0.1)).fit(
            words, tags, progress=False
        )
        assert tagger.predict(words) == tags
        [shares, _] = tagger.predict_marginals(words)
        assert shares[0, tagger.labels_.index("I-PER")] == 0.0
        assert tagger.entities(words)[0] == [(0, 2, "PER"), (3, 5, "PER")]
    with pytest.raises(ImpossibleError, match="sentence 1 "):
        tagger.predict(words, evidence=[[None] * 5, ["I-PER", None, None, None]])


def test_tags_known_in_part() -> None:
    some = [["PER", None, "LOC"], [{"LOC", "PER"}, "O"], ["O", None], ["PER", "O", None]]
    assert fitted(SKIP).predict(DOCUMENTS) == TAGS
    partly = Tagger(TEMPLATES, skip=SKIP, learner=ChainLikelihood(l2=0.1)).fit(DOCUMENTS, some, progress=False)
    for said, known in zip(partly.predict(DOCUMENTS), some, strict=True):
        assert all(tag is None or one == tag or one in tag for one, tag in zip(said, known, strict=True))


def test_answers_that_links_do_not_have_are_refused(tagger: Tagger) -> None:
    with pytest.raises(ValueError, match=r"best few answers are exact.*skip"):
        tagger.predict(WORDS, k=2)
    with pytest.raises(ValueError, match=r"samples are exact.*skip"):
        tagger.sample(WORDS)
    with pytest.raises(ValueError, match="partial_fit does not go with skip"):
        Tagger(skip=SKIP).partial_fit(WORDS, TAGS)
    with pytest.raises(ValueError, match="sample_weight"):
        Tagger(skip=SKIP).fit(WORDS, TAGS, sample_weight=[1, 2, 1, 1])
    with pytest.raises(ValueError, match="templates"):
        Tagger(skip=3).fit(WORDS, TAGS)
    with pytest.raises(ValueError, match="do not have"):
        Tagger(skip="capital[0]").fit(WORDS, TAGS)
    with pytest.raises(ValueError, match="neighbours must be"):
        Skip(neighbours=0)
    with pytest.raises(ValueError, match=r"lw.BP\(\)"):
        Skip(inference="bp")  # type: ignore[arg-type]


# --- Which tokens are linked -----------------------------------------------------------------------------------------


def test_links_join_equal_values_within_documents() -> None:
    value = np.array([5, 7, 5, -1, 5, 7, 5])
    start = np.array([0, 3, 5, 7])
    pairs = lambda document, neighbours: links_of([value], start, document, neighbours).place.tolist()  # noqa: E731
    assert pairs(None, 1) == [[0, 2]]
    assert pairs(np.array([0, 0, 1]), 1) == [[0, 2], [2, 4]]
    assert pairs(np.array([0, 0, 1]), None) == [[0, 2], [0, 4], [2, 4]]
    assert pairs(np.array([0, 0, 0]), 2) == [[0, 2], [0, 4], [1, 5], [2, 4], [2, 6], [4, 6]]
    two = links_of([value, np.arange(7) % 2], start, None, 1)
    assert two.kinds == 2 and two.kind.tolist() == [0, 1]


def test_templates_that_see_the_same_make_a_link() -> None:
    """Also where the words differ."""
    tagger = Tagger("w[0]", skip="lower[0] w[-1]|w[0]")
    problem = tagger.problem(Text.of([["the", "The", "cat", "the", "The"]]), [["O", "X", "O", "O", "O"]])
    assert problem.links.place[problem.links.kind == 0].tolist() == [[0, 1], [1, 3], [3, 4]]
    assert problem.links.place[problem.links.kind == 1].tolist() == [[1, 4]]


def test_columns_and_dicts_can_be_linked() -> None:
    words = [[{"w": word, "lemma": word.lower()} for word in row] for row in (["Dogs", "saw", "dogs"], ["I", "ran"])]
    tags = [["N", "V", "N"], ["P", "V"]]
    for templates in (None, "w[0]"):
        tagger = Tagger(templates, skip="lemma[0]").fit(words, tags, progress=False)
        assert tagger.prepared(words)[1].links.place.tolist() == [[0, 2]]
        assert tagger.predict(words) == tags
    assert Tagger(None, skip="w[0]").fit(words, tags, progress=False).prepared(words)[1].links.place.tolist() == []


# --- Chains of feature vectors ---------------------------------------------------------------------------------------


def signals(count: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two of six elements have one number, and one label, which only one of them shows."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels = rng.integers(0, 2, 6)
        pair = rng.choice(6, 2, replace=False)
        labels[pair[1]] = labels[pair[0]]
        shown = 2.0 * labels - 1
        shown[pair[1]] = 0.0
        number = np.zeros(6)
        number[pair] = rng.integers(1, 50)
        X.append(np.stack([shown, number], axis=1))
        y.append(labels)
    return X, y


def test_vectors_with_an_equal_feature_are_linked(tmp_path: Path) -> None:
    train, test = signals(40, 0), signals(40, 1)
    assert ChainCRF(standardize=False).fit(*train, progress=False).score(*test) < 0.97
    crf = ChainCRF(skip=1, standardize=False).fit(*train, progress=False)
    assert crf.score(*test) > 0.99
    marginals, status = crf.predict_marginals(test[0], status=True)
    assert status.converged and not status.exact and marginals[0].shape == (6, 2)
    crf.save(tmp_path / "c.loopwise")
    again = ChainCRF.load(tmp_path / "c.loopwise")
    np.testing.assert_array_equal(np.concatenate(again.predict(test[0])), np.concatenate(crf.predict(test[0])))
    given = [[None] * 6 for _ in test[0]]
    given[0][0] = int(1 - crf.predict(test[0])[0][0])
    assert crf.predict(test[0], evidence=given)[0][0] == given[0][0]
    with pytest.raises(ValueError, match="best few"):
        crf.predict(test[0], k=2)


@pytest.mark.parametrize("loss", [lw.loss.MSE(), lw.loss.F1(), SoftmaxMargin()])
def test_losses_of_linked_vectors(loss: Any) -> None:
    train, test = signals(40, 0), signals(40, 1)
    positive = {"positive": 1} if isinstance(loss, lw.loss.F1) else {}
    crf = ChainCRF(loss, skip=Skip(1), standardize=False, iterations=30, **positive).fit(*train, progress=False)
    assert crf.score(*test) > 0.97


def test_dicts_are_linked_by_key_and_documents() -> None:
    X = [[{"w": "a"}, {"w": "b"}], [{"w": "a"}, {"v": 1.0}]]
    crf = ChainCRF(skip="w").fit(Documents([X]), [[0, 1], [0, 1]], progress=False)
    assert sequence_links(crf._skip, Documents([X]), Sequences.of(X)).place.tolist() == [[0, 2]]
    assert [row.tolist() for row in crf.predict(Documents([X]))] == [[0, 1], [0, 1]]
    assert crf.log_likelihood(Documents([X]), [[0, 1], [0, 1]]).shape == (1,)


@pytest.mark.parametrize(
    ("X", "skip", "what"),
    [
        ([np.ones((2, 2))], 2, "numbered from 0"),
        ([np.ones((2, 2))], "w", "numbered from 0"),
        ([np.ones((2, 2))], 1.5, "keys of dicts or numbers"),
        ([[{"w": "a"}, {"w": "b"}]], "v", "its keys are"),
        ([[["w=a"], ["w=b"]]], "w", "as a dict"),
        (np.ones((2, 2)), 0, "sequences of one element"),
    ],
)
def test_links_of_vectors_that_cannot_be_are_refused(X: Any, skip: Any, what: str) -> None:
    y = [0, 1] if isinstance(X, np.ndarray) else [[0, 1]]
    with pytest.raises(ValueError, match=what):
        ChainCRF(skip=skip).fit(X, y, progress=False)


def test_class_weights_need_a_loss_of_elements() -> None:
    train = signals(10, 0)
    with pytest.raises(ValueError, match="class_weight needs a loss of elements"):
        ChainCRF(skip=1, class_weight="balanced").fit(*train, progress=False)
    with pytest.raises(ValueError, match="learner does not go with skip"):
        ChainCRF(skip=1, learner=ChainPerceptron()).fit(*train, progress=False)
