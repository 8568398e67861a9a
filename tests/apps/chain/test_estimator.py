"""The tagger as users have it: every learner learns, files keep it, scores are right, errors are sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from loopwise.apps.chain import (
    ChainERM,
    ChainLikelihood,
    ChainPerceptron,
    ChainSampleRank,
    ChainSVM,
    EntityF1,
    Posterior,
    Tagger,
    Viterbi,
)
from loopwise.formats.columns import read_tagged, write_tagged
from loopwise.formats.errors import FormatError
from loopwise.formats.iob import TagSet, broken_places
from oracles.tagger_text import TEMPLATES, TEST, TRAIN


@pytest.mark.parametrize(
    "learner",
    [ChainLikelihood(), ChainPerceptron(5), ChainSVM(0.1, 10), ChainERM(EntityF1(), iterations=10), ChainSampleRank(5)],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_every_learner_learns(learner, steps: str) -> None:
    tagger = Tagger(TEMPLATES, steps, learner=learner).fit(*TRAIN)
    assert tagger.score(*TEST) > 0.95
    assert len(tagger.history_.losses) > 1 and tagger.history_.losses[-1] < tagger.history_.losses[0]


def test_marginals_samples_and_likelihood_agree(fitted: Tagger) -> None:
    words = TEST[0][:20]
    marginals = fitted.predict_marginals(words)
    assert [shares.shape for shares in marginals] == [(len(sentence), len(fitted.labels_)) for sentence in words]
    for shares in marginals:
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    drawn = next(fitted.sample([words[0]] * 2000, seed=seed) for seed in (0,))
    first = np.mean(
        [[fitted.labels_.index(tag) == np.arange(len(fitted.labels_)) for tag in row] for row in drawn], axis=0
    )
    assert np.abs(first - marginals[0]).max() < 5 * 0.5 / np.sqrt(2000)
    # The probability of a one-word sentence's tag is its marginal.
    single = [["Bob"], ["dog"]]
    tags = [["B-PER"], ["O"]]
    shares = fitted.predict_marginals(single)
    expected = [np.log(share[0, fitted.labels_.index(tag[0])]) for share, tag in zip(shares, tags, strict=True)]
    np.testing.assert_allclose(fitted.log_likelihood(single, tags), expected, rtol=1e-9)


def test_decoders(fitted: Tagger) -> None:
    """The best path is at least as probable as any other; the best tags of tokens are at least as probable each."""
    words = TEST[0]
    best, tokens = fitted.predict(words), Tagger.predict(with_decoder(fitted, Posterior(valid=False)), words)
    assert (fitted.log_likelihood(words, best) >= fitted.log_likelihood(words, tokens) - 1e-9).all()
    for shares, tags in zip(fitted.predict_marginals(words), tokens, strict=True):
        assert [fitted.labels_[k] for k in shares.argmax(axis=1)] == tags


def with_decoder(tagger: Tagger, decoder: object) -> Tagger:
    copy = Tagger(**{**tagger.get_params(), "decoder": decoder})
    copy.__dict__.update({name: value for name, value in tagger.__dict__.items() if name.endswith("_")})
    return copy


@pytest.mark.parametrize("decoder", [Viterbi(), Posterior()])
def test_valid_sequences(decoder: object) -> None:
    """A model that likes I-PER everywhere still begins entities where IOB2 must."""
    tagger = Tagger("bias").fit([["a"] * 3], [["B-PER", "I-PER", "O"]])
    tagger.weights_.vector[:] = 0.0
    tagger.weights_.unary[0] = [3.0 if label == "I-PER" else 0.0 for label in tagger.labels_]
    free = with_decoder(tagger, type(decoder)(valid=False)).predict([["a"] * 4])
    held = with_decoder(tagger, decoder).predict([["a"] * 4])
    labels = TagSet.of(tagger.labels_)
    number = lambda tags: np.array([tagger.labels_.index(tag) for tag in tags[0]])  # noqa: E731
    assert broken_places(number(free), labels, np.array([0, 4])).size > 0
    if isinstance(decoder, Viterbi):
        assert broken_places(number(held), labels, np.array([0, 4])).size == 0
    assert held[0][0] != "I-PER"


def test_entities_are_those_of_the_tags(fitted: Tagger) -> None:
    for words, tags, found in zip(TEST[0], fitted.predict(TEST[0]), fitted.entities(TEST[0]), strict=True):
        begins = [place for place, tag in enumerate(tags) if tag.startswith("B-")]
        assert [span[0] for span in found] == begins
        for begin, end, name in found:
            assert tags[begin] == f"B-{name}" and all(tag == f"I-{name}" for tag in tags[begin + 1 : end])
            assert end == len(words) or tags[end] != f"I-{name}"


def test_files_keep_everything(fitted: Tagger, tmp_path: Path) -> None:
    hashed = Tagger(TEMPLATES, "is_title[0]", hashing=512, learner=ChainPerceptron(3), decoder=Posterior(False)).fit(
        *TRAIN
    )
    for tagger in (fitted, hashed):
        tagger.save(tmp_path / "t.loopwise")
        again = Tagger.load(tmp_path / "t.loopwise")
        assert again.predict(TEST[0]) == tagger.predict(TEST[0]) and again.labels_ == tagger.labels_
        for one, two in zip(again.predict_marginals(TEST[0]), tagger.predict_marginals(TEST[0]), strict=True):
            assert np.array_equal(one, two)
        first = (tmp_path / "t.loopwise").read_bytes()
        again.set_params(learner=tagger.learner).save(tmp_path / "t.loopwise")
        assert (tmp_path / "t.loopwise").read_bytes() == first
    data = bytearray(first)
    (tmp_path / "bad").write_bytes(bytes(data).replace(b"Tagger", b"Larger"))
    with pytest.raises(FormatError, match="not a Tagger"):
        Tagger.load(tmp_path / "bad")
    (tmp_path / "bad").write_bytes(bytes(data).replace(b'\\"B-LOC\\", ', b"           "))
    with pytest.raises(FormatError, match="damaged"):
        Tagger.load(tmp_path / "bad")


def test_column_files_in_and_out(tmp_path: Path) -> None:
    write_tagged(tmp_path / "train.conll.gz", *TRAIN)
    write_tagged(tmp_path / "test.conll", *TEST)
    tagger = Tagger(TEMPLATES).fit(tmp_path / "train.conll.gz", dev=tmp_path / "test.conll")
    assert tagger.score(tmp_path / "test.conll") == tagger.score(*TEST)
    filled = sum(1 for sentence in TEST[0] if sentence)
    assert tagger.tag_file(tmp_path / "test.conll", tmp_path / "said.conll") == filled
    assert read_tagged(tmp_path / "said.conll").tagged() == [tags for tags in tagger.predict(TEST[0]) if tags]


def test_development_data_choose_the_epoch() -> None:
    tagger = Tagger(TEMPLATES, learner=ChainPerceptron(4)).fit(*TRAIN, dev=TEST)
    scores = [epoch.dev for epoch in tagger.history_]
    assert tagger.history_.best == 1 + int(np.argmax(scores))
    assert tagger.score(*TEST) == max(scores)


def test_warm_starts_go_on() -> None:
    cold = Tagger(TEMPLATES, learner=ChainLikelihood(iterations=200, tolerance=1e-10)).fit(*TRAIN)
    warm = Tagger(TEMPLATES, learner=ChainLikelihood(iterations=3), warm_start=True).fit(*TRAIN)
    first = warm.history_.losses[-1]
    warm.set_params(learner=ChainLikelihood(iterations=200, tolerance=1e-10)).fit(*TRAIN)
    assert warm.history_.losses[0] < first
    assert warm.history_.losses[-1] == pytest.approx(cold.history_.losses[-1], rel=1e-6)


def test_seeds_and_threads() -> None:
    one, two, other = (Tagger(TEMPLATES, learner=ChainPerceptron(2), seed=seed).fit(*TRAIN) for seed in (1, 1, 2))
    assert np.array_equal(one.weights_.vector, two.weights_.vector)
    assert not np.array_equal(one.weights_.vector, other.weights_.vector)
    single, double = (Tagger(TEMPLATES, threads=threads).fit(*TRAIN) for threads in (1, 2))
    np.testing.assert_allclose(single.weights_.vector, double.weights_.vector, rtol=1e-3, atol=1e-3)


def test_scikit_learn_knows_it() -> None:
    base = pytest.importorskip("sklearn.base")
    search = pytest.importorskip("sklearn.model_selection")
    tagger = Tagger(TEMPLATES, learner=ChainPerceptron(2))
    assert base.clone(tagger).get_params() == tagger.get_params()
    found = search.GridSearchCV(tagger, {"learner": [ChainPerceptron(1), ChainPerceptron(3)]}, cv=2).fit(*TRAIN)
    assert found.best_score_ > 0.8
    assert "Perceptron" in repr(tagger) and "seed" not in repr(tagger)
    with pytest.raises(ValueError, match="no parameter 'nonsense'"):
        tagger.set_params(nonsense=1)


def test_sentences_without_words() -> None:
    tagger = Tagger(TEMPLATES).fit([[], *TRAIN[0]], [[], *TRAIN[1]])
    assert tagger.predict([[], ["Bob"], []]) == [[], ["B-PER"], []]
    assert tagger.predict([]) == [] and tagger.predict_marginals([]) == [] and tagger.predict([[]]) == [[]]
    assert tagger.log_likelihood([[]], [[]]).tolist() == [0.0]


def test_other_tags_than_entities() -> None:
    words = [["the", "dog", "ran"], ["a", "cat", "slept"]]
    tagger = Tagger("w[0] bias").fit(words, [["DET", "NOUN", "VERB"]] * 2)
    assert tagger.predict([["the", "cat", "ran"]]) == [["DET", "NOUN", "VERB"]]
    assert tagger.score(words, [["DET", "NOUN", "VERB"]] * 2) == 1.0


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        Tagger().predict([["a"]])
    with pytest.raises(ValueError, match="not fitted"):
        Tagger().save("never")
    with pytest.raises(ValueError, match="no words"):
        Tagger().fit([[]], [[]])
    with pytest.raises(ValueError, match="no tags"):
        Tagger().fit([["a"]])
    tagger = Tagger("w[0]").fit([["a"]], [["O"]])
    assert tagger.evaluate([["a"]], [["B-PER"]]).entities.recall == 0.0  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="does not know"):
        tagger.log_likelihood([["a"]], [["B-PER"]])


def test_what_is_no_list_of_sentences_or_tags() -> None:
    """A sentence for each, with the remedy."""
    words, tags = [["a", "b"]], [["X", "Y"]]
    for message, given in {
        "sentence 0 has the tag 7; a tag is text, None where it is not known": (words, [["X", 7]]),
        "no tag is known": (words, [[None, None]]),
        r"sentences are read more than once.*give list\(sentences\)": (iter(words), tags),
        r"tags are read more than once.*give list\(tags\)": (words, iter(tags)),
        "sentences must be lists of text, a list a sentence, not Tensor": (torch.zeros(2, 3), tags),
        "tags must be lists of text, a list a sentence, not Tensor": (words, torch.zeros(1, 2)),
    }.items():
        with pytest.raises(ValueError, match=message):
            Tagger().fit(*given)  # type: ignore[arg-type]
