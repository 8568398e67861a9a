"""Tags that are not known, given or forbidden; the best few; samples: against enumeration of all sequences."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from loopwise.apps import ChainCRF, Tagger
from loopwise.apps.chain import (
    ChainERM,
    ChainLikelihood,
    ChainPerceptron,
    ChainSampleRank,
    ChainSVM,
    EntityF1,
    EntityFBeta,
    Forbid,
    Posterior,
    TokenHamming,
    Viterbi,
)
from loopwise.apps.chain.features.text import Text
from loopwise.formats.columns import BrokenTagsWarning
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.notices import ImpossibleError
from oracles.tagger_text import names

WORDS = [["Ann", "saw", "Bob"], ["the", "dog", "saw", "Ann", "Lee"], ["Bob", "ran"]]
TAGS = [["B-PER", "O", "B-PER"], ["O", "O", "O", "B-PER", "I-PER"], ["B-PER", "O"]]
TEMPLATES = "w[0] is_title[0] bias"
LABELS = ("O", "B-PER", "I-PER")


def distribution(tagger: Tagger, words: list[str]) -> dict[tuple[str, ...], float]:
    """Every sequence of tags with its probability, from the scores of the model without rules."""
    text = Text.of([words])
    free = Tagger(tagger.templates, order=tagger.order, decoder=Viterbi(valid=False))
    free.__dict__.update({name: value for name, value in tagger.__dict__.items() if name.endswith("_")})
    _, problem = free.prepared([words])
    unary, pair = tagger.weights_.unary, tagger.weights_.pair
    features = problem.unary.flat
    states = len(tagger.labels_)
    found = {}
    for path in product(range(states), repeat=text.tokens):
        score = sum(
            unary[features.index[features.start[at] : features.start[at + 1]], tag].sum() for at, tag in enumerate(path)
        )
        score += sum(pair[0, one * states + two] for one, two in pairwise(path))
        if tagger.order == 2:
            score += sum(pair[1 + a, b * states + c] for a, b, c in zip(path, path[1:], path[2:], strict=False))
        named = tuple(tagger.labels_[tag] for tag in path)
        if all(not tag.startswith("I") or (at and named[at - 1] != "O") for at, tag in enumerate(named)):
            found[named] = float(np.exp(score))
    total = sum(found.values())
    return {path: share / total for path, share in found.items()}


@pytest.fixture(scope="module", params=[1, 2], ids=["first order", "second order"])
def tagger(request: pytest.FixtureRequest) -> Tagger:
    return Tagger(TEMPLATES, learner=ChainLikelihood(l2=0.5), order=request.param).fit(WORDS, TAGS)


def test_the_best_few_with_their_probabilities(tagger: Tagger) -> None:
    words = ["Lee", "saw", "dog", "Bob"]
    expected = sorted(distribution(tagger, words).items(), key=lambda entry: -entry[1])
    [found] = tagger.predict([words], k=7)
    assert [tuple(one.answer) for one in found] == [path for path, _ in expected[:7]]
    np.testing.assert_allclose([one.probability for one in found], [share for _, share in expected[:7]], rtol=1e-9)
    assert found[0].answer == tagger.predict([words])[0]
    [everything, one, none] = tagger.predict([words, ["Bob"], []], k=1000)
    assert len(everything) == len(expected) and len(one) == 2 and [answer.answer for answer in none] == [[]]
    assert sum(answer.probability for answer in everything) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="at least 1"):
        tagger.predict([words], k=0)


def test_samples_have_their_probabilities(tagger: Tagger) -> None:
    words = ["Lee", "saw", "dog"]
    expected = distribution(tagger, words)
    [drawn] = tagger.sample([words], seed=1, count=3000)
    for one in drawn[:50]:
        assert one.probability == pytest.approx(expected[tuple(one.answer)])
    shares = {path: sum(tuple(one.answer) == path for one in drawn) / len(drawn) for path in expected}
    for path, share in expected.items():
        assert abs(shares[path] - share) < 5 * np.sqrt(share * (1 - share) / len(drawn)) + 1e-3
    assert tagger.sample([words], seed=4)[0] in [list(path) for path in expected]


def test_rules_hold_in_marginals(tagger: Tagger) -> None:
    """No probability for a tag that cannot be there, and all others as enumeration of what is allowed has them."""
    words = ["Ann", "Lee", "saw"]
    [shares] = tagger.predict_marginals([words])
    assert shares[0, tagger.labels_.index("I-PER")] == 0.0
    expected = np.zeros_like(shares)
    for path, share in distribution(tagger, words).items():
        for place, tag in enumerate(path):
            expected[place, tagger.labels_.index(tag)] += share
    np.testing.assert_allclose(shares, expected, atol=1e-12)


def test_given_tags(tagger: Tagger) -> None:
    words, given = ["Ann", "Lee", "saw"], ["O", None, {"O", "B-PER"}]
    fits = {path: share for path, share in distribution(tagger, words).items() if path[0] == "O" and path[2] != "I-PER"}
    best = max(fits, key=lambda path: fits[path])
    assert tagger.predict([words], evidence=[given]) == [list(best)]
    [[first, *_]] = tagger.predict([words], k=3, evidence=[given])
    assert tuple(first.answer) == best and first.probability == pytest.approx(fits[best] / sum(fits.values()))
    [shares] = tagger.predict_marginals([words], evidence=[given])
    expected = np.zeros_like(shares)
    for path, share in fits.items():
        for place, tag in enumerate(path):
            expected[place, tagger.labels_.index(tag)] += share / sum(fits.values())
    np.testing.assert_allclose(shares, expected, atol=1e-12)
    assert tagger.sample([words], evidence=[given])[0][0] == "O"
    [log_share] = tagger.log_likelihood([words], [given])
    assert log_share == pytest.approx(np.log(sum(fits.values())))
    with pytest.raises(ImpossibleError, match=r"sentence 0 has no possible tags"):
        tagger.predict([words], evidence=[["O", "I-PER", None]])
    with pytest.raises(ValueError, match="the tag 'B-LOC', which the tagger does not know"):
        tagger.predict([words], evidence=[["B-LOC", None, None]])


@pytest.mark.parametrize("order", [1, 2])
def test_the_likelihood_of_what_is_known(order: int) -> None:
    """Minus the log-probability of all that agrees with what is known, under the rules; and its slope."""
    tags: list[list[Any]] = [[None, "O", "B-PER"], ["O", float("nan"), -1, {"B-PER", "O"}, "I-PER"], ["B-PER", "O"]]
    tagger = Tagger(TEMPLATES, order=order)
    problem = tagger.problem(Text.of(WORDS), tags)
    goal, start = NegativeLogLikelihood(problem), problem.start()
    weights = start.like(np.random.default_rng(0).normal(0, 0.5, start.vector.shape))
    tagger.weights_ = weights
    value, slope = goal(weights)
    expected = 0.0
    for words, row in zip(WORDS, tags, strict=True):
        fits = [
            share
            for path, share in distribution(tagger, words).items()
            if all(tag in known if isinstance(known, set) else not isinstance(known, str) or tag == known
                   for tag, known in zip(path, row, strict=True))
        ]  # fmt: skip
        expected -= np.log(sum(fits))
    assert value == pytest.approx(expected, rel=1e-9)
    assert -tagger.log_likelihood(WORDS, tags).sum() == pytest.approx(expected, rel=1e-9)
    step = 1e-6
    for place in range(0, len(weights.vector), 7):
        moved = [weights.vector.copy() for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (goal(weights.like(vector))[0] for vector in moved)
        assert slope[place] == pytest.approx((high - low) / (2 * step), abs=1e-6)


@pytest.mark.parametrize(
    "learner",
    [
        ChainLikelihood(l2=0.1), ChainLikelihood(l2=0.1, seen_only=True), ChainPerceptron(10), ChainSVM(0.1),
        ChainERM(TokenHamming()),
    ],
    ids=lambda learner: type(learner).__name__,
)  # fmt: skip
def test_learning_from_some_tags(learner: Any) -> None:
    words, tags = names(150, seed=0)
    rng = np.random.default_rng(0)
    some = [[tag if rng.random() < 0.5 else None for tag in row] for row in tags]
    tagger = Tagger("w[0] lower[-1] suffix2[0] is_title[0] bias", learner=learner).fit(words, some)
    assert tagger.score(*names(60, seed=1)) > 0.9
    assert 0.9 < tagger.evaluate(words, some).score <= 1.0  # what is not known does not count


def test_learners_that_need_every_tag_say_so() -> None:
    some = [[None, *row[1:]] for row in TAGS]
    for learner, name in ((ChainERM(EntityF1()), "EntityF1"), (ChainSampleRank(2), "a walk")):
        with pytest.raises(ValueError, match=rf"{name} needs every tag, and 3 are not known, the first in sentence 0"):
            Tagger(TEMPLATES, learner=learner).fit(WORDS, some)
    with pytest.raises(ValueError, match="trained by likelihood"):
        Tagger(TEMPLATES, order=2, learner=ChainPerceptron()).fit(WORDS, TAGS)


def test_rules_hold_in_training() -> None:
    """Weights of steps that cannot be stay 0, and the first word gives nothing to what cannot come first."""
    tagger = Tagger(TEMPLATES).fit(WORDS, TAGS)
    out, inside = tagger.labels_.index("O"), tagger.labels_.index("I-PER")
    assert tagger.weights_.pair[0, out * 3 + inside] == 0.0
    free = Tagger(TEMPLATES, decoder=Viterbi(valid=False)).fit(WORDS, TAGS)
    assert free.weights_.pair[0, out * 3 + inside] < 0.0 and free.predict_marginals(WORDS)[0][0, inside] > 0.0


def test_codings_that_are_not_iob2_are_left_alone() -> None:
    tags = [[tag.replace("B-", "I-") for tag in row] for row in TAGS]
    tagger = Tagger(TEMPLATES, learner=ChainLikelihood(l2=0.1)).fit(WORDS, tags)
    assert tagger.rules_ is None and tagger.predict(WORDS) == tags
    with pytest.warns(BrokenTagsWarning, match="1 tags continue an entity that none began, the first in sentence 2"):
        mended = Tagger(TEMPLATES).fit(WORDS, [*TAGS[:2], ["I-PER", "O"]])
    assert mended.rules_ is not None and mended.predict([["Bob", "ran"]]) == [["B-PER", "O"]]


@pytest.mark.parametrize("decoder", [Viterbi(), Posterior()])
def test_constraints_of_users(decoder: Any, tmp_path: Any) -> None:
    words, tags = [["the", "dog", "ran"], ["a", "dog", "sat"]], [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]
    rules = Forbid(steps=[("DET", "VERB")], last=["DET"], first=["VERB"])
    tagger = Tagger("w[0] bias", constraints=rules, decoder=decoder).fit(words, tags)
    [shares] = tagger.predict_marginals([["ran"]])
    assert shares[0, tagger.labels_.index("VERB")] == 0.0 == shares[0, tagger.labels_.index("DET")]
    assert tagger.predict([["the", "ran", "dog"]])[0][:2] != ["DET", "VERB"]
    tagger.save(tmp_path / "t.loopwise")
    again = Tagger.load(tmp_path / "t.loopwise")
    np.testing.assert_array_equal(again.predict_marginals([["the", "ran"]]), tagger.predict_marginals([["the", "ran"]]))
    free = Tagger("w[0] bias", constraints=rules, decoder=type(decoder)(valid=False)).fit(words, tags)
    free.save(tmp_path / "f.loopwise")
    for model in (free, Tagger.load(tmp_path / "f.loopwise")):  # valid is about IOB2 alone
        assert model.predict_marginals([["ran"]])[0][0, model.labels_.index("VERB")] == 0.0
    with pytest.raises(ValueError, match="sentence 0 has the tag 'NOUN' where the constraints forbid it"):
        Tagger("w[0]", constraints=Forbid(steps=[("DET", "NOUN")])).fit(words, tags)
    with pytest.raises(ValueError, match="forbid the tag 'X', which is none"):
        Tagger("w[0]", constraints=Forbid(first=["X"])).fit(words, tags)


def test_second_order_learns_what_first_order_cannot(tmp_path: Any) -> None:
    """The third of three equal words has the tag of the first: only who remembers two tags knows."""
    rng = np.random.default_rng(0)
    words, tags = [], []
    for _ in range(60):
        first, second = rng.integers(2, size=2)
        words.append([f"a{first}", f"b{second}", "c"])
        tags.append([f"T{first}", f"T{second}", f"T{first}"])
    scores = [Tagger("w[0]", order=order, learner=ChainLikelihood(l2=0.1)).fit(words, tags) for order in (1, 2)]
    assert scores[0].score(words, tags) < 0.9 and scores[1].score(words, tags) == 1.0
    scores[1].save(tmp_path / "t.loopwise")
    assert Tagger.load(tmp_path / "t.loopwise").predict(words) == tags
    with pytest.raises(ValueError, match="no step_templates"):
        Tagger("w[0]", "w[0]", order=2).fit(words, tags)


def test_f_beta_and_class_weights() -> None:
    words, tags = names(120, seed=0)
    templates = "shape[0] bias"  # too little to be right
    careful, bold = (
        Tagger(templates, learner=ChainERM(EntityFBeta(beta), l2=0.1)).fit(words, tags) for beta in (0.2, 5.0)
    )
    one, two = careful.evaluate(words, tags).entities, bold.evaluate(words, tags).entities
    assert one is not None and two is not None and two.recall >= one.recall and two.decided > one.decided
    kinds = sorted(careful.evaluate(words, tags).types)
    favoured = ChainERM(EntityF1(), l2=0.1, class_weight={kinds[0]: 50.0})
    report = Tagger(templates, learner=favoured).fit(words, tags).evaluate(words, tags)
    plain = Tagger(templates, learner=ChainERM(EntityF1(), l2=0.1)).fit(words, tags).evaluate(words, tags)
    assert report.types[kinds[0]].f1 >= plain.types[kinds[0]].f1
    heavy = Tagger(templates, learner=ChainERM(TokenHamming(), l2=0.1, class_weight={"O": 0.01})).fit(words, tags)
    light = Tagger(templates, learner=ChainERM(TokenHamming(), l2=0.1)).fit(words, tags)
    count = [sum(tag != "O" for row in model.predict(words) for tag in row) for model in (heavy, light)]
    assert count[0] > count[1]
    with pytest.raises(ValueError, match="beta must be"):
        EntityFBeta(0.0)


# --- Chains of feature vectors ---------------------------------------------------------------------------------------


def vectors(count: int = 30) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    labels = [np.repeat(rng.integers(0, 2, 3), 3) for _ in range(count)]
    return [np.stack([row, 1 - row], 1) + rng.normal(0, 0.7, (len(row), 2)) for row in labels], labels


def test_chains_of_vectors_take_the_same() -> None:
    x, y = vectors()
    for unknown in (None, float("nan"), -1, {0, 1}):
        some = [[unknown if place % 3 == 0 else int(label) for place, label in enumerate(row)] for row in y]
        crf = ChainCRF().fit(x, some)
        assert crf.classes_.tolist() == [0, 1] and crf.score(x, y) > 0.85
        assert crf.score(x, some) > 0.85
    crf = ChainCRF().fit(x, y)
    ranked = crf.predict(x[:2], k=3)
    for row, best in zip(ranked, crf.predict(x[:2]), strict=True):
        assert row[0].answer.tolist() == best.tolist()
        shares = [one.probability for one in row]
        assert shares == sorted(shares, reverse=True)
        for one, sequence in zip(row, [x[0]] * 3, strict=True):
            assert len(one.answer) == len(sequence)
    np.testing.assert_allclose(
        [one.probability for one in ranked[0]],
        np.exp(crf.log_likelihood([x[0]] * 3, [one.answer for one in ranked[0]])),
    )
    given = [[1] + [None] * 8]
    assert crf.predict(x[:1], evidence=given)[0][0] == 1
    np.testing.assert_allclose(crf.predict_marginals(x[:1], evidence=given)[0][0], [0.0, 1.0], atol=1e-12)
    nothing = crf.predict_marginals(x[:1], evidence=[[None] * 9])[0]
    np.testing.assert_allclose(nothing, crf.predict_marginals(x[:1])[0])
    assert len(crf.sample(x[:1], count=4)[0]) == 4
    held = ChainCRF(constraints=Forbid(steps=[(1, 0)])).fit(x, [np.sort(row) for row in y])
    assert all((np.diff(row) >= 0).all() for row in held.predict(x))
    signs = ChainCRF().fit(x, [2 * row - 1 for row in y])
    assert signs.classes_.tolist() == [-1, 1]  # two classes: neither says that a label is not known
    assert ChainCRF(order=2).fit(x, y).score(x, y) > 0.85
