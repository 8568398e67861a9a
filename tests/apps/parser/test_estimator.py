"""The parser as users have it: trained on a little language, saved, loaded, asked for trees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopwise.apps import Parser
from loopwise.apps.parser.objectives import CLL, AnnealedRisk, SquaredDistance
from loopwise.formats import FormatError
from loopwise.formats.conllu import NO_HEAD, Sentence, check_tree, make_sentence, read_conllu, write_conllu
from loopwise.gradient.perturbation import Perturbation
from loopwise.inference.exact.method import Exact
from loopwise.inference.messages.message_passing import BP
from loopwise.notices import DataWarning
from oracles.toy_language import DEV, TRAIN, small, toy_sentences


def test_it_learns_the_little_language(trained: Parser) -> None:
    history = trained.history
    assert history.losses[-1] < 0.2 * history.losses[0] and history.ended == "all 4 epochs done"
    assert history.dev[history.best - 1] == max(history.dev)
    scores = trained.evaluate(DEV)
    assert scores.uas > 0.97 and scores.las > 0.95
    assert scores.uas == pytest.approx(max(history.dev))  # the best weights are the ones kept


def test_trees_are_valid_and_their_beliefs_probabilities(trained: Parser) -> None:
    for tree in trained.parse(DEV[:5]):
        check_tree(tree.sentence, single_root=True)
        np.testing.assert_allclose(tree.marginals[:, 1:].sum(0), 1.0, atol=1e-9)
        chosen = [tree.marginals[head, mod] for mod, head in enumerate(tree.heads, 1)]
        np.testing.assert_allclose(tree.confidence, chosen)
        assert [name == "root" for name in tree.relations] == [head == 0 for head in tree.heads]


def test_threads_change_nothing(trained: Parser, tmp_path: Path) -> None:
    again = small(("grandparent", "sibling"), BP(iterations=2))
    again.fit(TRAIN, dev=DEV, epochs=4, rate=0.1, threads=3)
    assert np.array_equal(again.model.weights, trained.model.weights)
    assert np.array_equal(again.labeller.weights, trained.labeller.weights)
    assert [t.sentence.lines for t in again.parse(DEV, threads=2)] == [t.sentence.lines for t in trained.parse(DEV)]
    assert again.history.seconds != trained.history.seconds  # of the clock: what files must not hold
    again.save(tmp_path / "again")
    trained.save(tmp_path / "first")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "first").read_bytes()


def test_files_keep_everything_else(trained: Parser, tmp_path: Path) -> None:
    source, target = tmp_path / "in.conllu", tmp_path / "out.conllu.gz"
    sentence = DEV[0]
    lines = list(sentence.lines)
    lines = ["# a comment", "1-2\tthecat\t_\t_\t_\t_\t_\t_\t_\t_", *lines, f"{len(sentence)}.1" + "\t_" * 9]
    source.write_text("\n".join(lines) + "\n\n# nothing but this\n\n", encoding="utf-8")
    assert trained.parse_file(source, target, confidence=True) == 2
    parsed, empty = read_conllu(target)
    assert len(empty) == 0 and empty.lines == ("# nothing but this",)
    assert [line for line in parsed.lines if "ArcConfidence=" not in line] == [lines[0], lines[1], lines[-1]]
    check_tree(parsed, single_root=True)


def test_given_heads_are_kept_and_the_rest_fits_them(trained: Parser) -> None:
    gold = next(sentence for sentence in DEV if len(sentence) >= 8)
    wrong = 1 if gold.heads[2] != 1 else 2
    given = [NO_HEAD] * len(gold)
    given[2] = wrong
    (tree,) = trained.parse([gold.with_tree(given)], partial=True)
    assert tree.heads[2] == wrong and tree.confidence[2] == pytest.approx(1.0)
    check_tree(tree.sentence, single_root=True)
    whole = trained.predict([gold], partial=True)[0]
    assert whole.lines == gold.lines  # all heads and relations were given
    crossing = [NO_HEAD] * len(gold)
    crossing[0], crossing[1] = 3, 4
    with pytest.raises(FormatError, match="no projective tree of one root has the heads given"):
        trained.parse([gold.with_tree(crossing)], partial=True)


def test_sentences_of_all_sizes(trained: Parser) -> None:
    words = [make_sentence([], []), make_sentence(["Ω"], ["SYM"]), make_sentence(["!"] * 40, ["PUNCT"] * 40)]
    long = make_sentence([f"w{k % 7}" for k in range(150)], [("NOUN", "VERB", "X")[k % 3] for k in range(150)])
    with pytest.warns(DataWarning, match="tags"):  # nearly all unknown
        parsed = trained.predict([*words, long])
    for given, done in zip([*words, long], parsed, strict=True):
        assert len(given) == len(done)
        check_tree(done, single_root=True)
    assert trained.predict([]) == []


def test_decoding_by_odds_is_another_rule(trained: Parser) -> None:
    for tree in trained.parse(DEV, by_odds=True):
        check_tree(tree.sentence, single_root=True)


@pytest.mark.parametrize(
    ("loss", "factors", "inference"),
    [
        (CLL(), ("grandparent", "sibling"), BP(iterations=2)),
        (CLL(), (), BP(iterations=1)),
        (SquaredDistance(), (), BP(iterations=1, gradient=Perturbation())),
        ((SquaredDistance(), AnnealedRisk()), ("sibling",), BP(iterations=1)),
        (SquaredDistance(), ("grandparent",), Exact()),
        (CLL(), ("grandparent",), Exact()),
    ],
)
def test_every_objective_and_inference_learns(loss: object, factors: tuple[str, ...], inference: object) -> None:
    parser = small(factors, inference)
    history = parser.fit(TRAIN[:40], loss=loss, epochs=3, rate=0.1, labels=False, threads=1)
    assert parser.evaluate(DEV).uas > 0.9
    assert [epoch.number for epoch in history] == list(range(1, len(history) + 1))
    assert len(history) == 3 * (len(loss) if isinstance(loss, tuple) else 1)


def test_crossing_trees_need_a_parser_that_allows_them() -> None:
    train, test = toy_sentences(60, seed=1, crossing=True), toy_sentences(20, seed=2, crossing=True)
    crossing = small(("grandparent", "sibling"), BP(iterations=1), projective=False)
    crossing.fit(train, epochs=3, rate=0.1, labels=False)
    assert crossing.evaluate(test).uas > 0.95
    projective = small((), BP(iterations=1))
    projective.fit(train, loss=CLL(), epochs=2, rate=0.1, labels=False)
    assert projective.pruning_report(test)["oracle"] < 1.0  # the crossing arc cannot be found
    assert projective.evaluate(test).uas < crossing.evaluate(test).uas


def test_several_roots_are_allowed_if_asked_for() -> None:
    def double(sentence: Sentence) -> Sentence:
        n = len(sentence)
        heads = [*sentence.heads, *(head + n if head else 0 for head in sentence.heads)]
        return make_sentence(sentence.forms * 2, sentence.coarse_tags * 2, heads=heads)

    twice = [double(sentence) for sentence in TRAIN[:30]]
    with pytest.raises(FormatError, match="both have the head 0"):
        small().fit(twice)
    several = small((), BP(iterations=1), single_root=False)
    several.fit(twice, epochs=3, rate=0.1)
    assert np.mean([tree.heads.count(0) for tree in several.parse(twice)]) > 1.5


def test_a_stopped_run_goes_on_as_if_it_never_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwise.learn.files import ledger

    def run(checkpoint: Path | None) -> Parser:
        parser = small(("sibling",), BP(iterations=1))
        parser.fit(TRAIN[:30], dev=DEV, epochs=3, rate=0.1, seed=3, checkpoint=checkpoint)
        return parser

    whole = run(None)
    path = tmp_path / "run.checkpoint"
    written = ledger.write_checkpoint
    for stop in (1, 3, 5, 8):  # in the pruning model, between phases, among the trees, among the relations

        def interrupted(*arguments: object, left: list[int] = [stop]) -> None:  # noqa: B006
            written(*arguments)  # type: ignore[arg-type]
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt

        monkeypatch.setattr(ledger, "write_checkpoint", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(path)
        monkeypatch.setattr(ledger, "write_checkpoint", written)
        resumed = run(path)
        assert np.array_equal(resumed.model.weights, whole.model.weights)
        assert np.array_equal(resumed.labeller.weights, whole.labeller.weights)
        assert resumed.history.dev == whole.history.dev
        path.unlink()
    run(path)
    with pytest.raises(FormatError, match="another run: its settings was"):
        parser = small(("sibling",), BP(iterations=1))
        parser.fit(TRAIN[:30], dev=DEV, epochs=3, rate=0.1, seed=4, checkpoint=path)


def test_tags_of_another_kind_are_told(trained: Parser) -> None:
    for names, kind in (("coarse_tags", "fine tags .XPOS."), ("fine_tags", "coarse tags .UPOS.")):
        given = [make_sentence(s.forms, getattr(s, names), getattr(s, names)) for s in DEV[:5]]
        with pytest.warns(DataWarning, match=f"100% of the {kind} do not occur in the training data"):
            trained.parse(given)


def test_paths_are_read(trained: Parser, tmp_path: Path) -> None:
    write_conllu(tmp_path / "dev.conllu", DEV)
    assert trained.evaluate(tmp_path / "dev.conllu") == trained.evaluate(DEV)
    assert trained.evaluate(str(tmp_path / "dev.conllu")) == trained.evaluate(DEV)


def test_words_without_parts_of_speech(trained: Parser) -> None:
    for given in ([["The", "dog"]], ["The dog"], [None]):
        with pytest.raises(ValueError, match=r"sentence 0 is .*words with their parts of speech: give a CoNLL-U file"):
            trained.parse(given)  # type: ignore[arg-type]
