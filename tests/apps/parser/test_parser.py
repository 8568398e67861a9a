"""The parser as users have it: trained on a little language, saved, loaded, asked for trees."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from loopwise.apps import Parser
from loopwise.apps.parser.objectives import CLL, L2, AnnealedRisk
from loopwise.apps.parser.options import Pruning, Templates
from loopwise.formats import FormatError
from loopwise.formats.conllu import NO_HEAD, Sentence, check_tree, make_sentence, read_conllu, write_conllu
from loopwise.gradient.perturbation import Perturbation
from loopwise.inference.exact import Exact
from loopwise.inference.mean_field import MeanField
from loopwise.inference.message_passing import BP
from loopwise.learn import evaluate, fit
from loopwise.learn.container import read_container, write_container
from loopwise.learn.optim import AdaGradCOMID
from loopwise.loss import MSE
from loopwise.notices import DataWarning, LoopwiseWarning
from oracles.toy_language import toy_sentences

SMALL = Templates(size=50_000, cutoff=1)
PRUNING = Pruning(size=20_000, epochs=2, rate=0.1)
TRAIN, DEV = toy_sentences(60, seed=1), toy_sentences(30, seed=2)


def small(*arguments: object, **options: object) -> Parser:
    return Parser(*arguments, **{"templates": SMALL, "pruning": PRUNING} | options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained() -> Parser:
    parser = small(("grandparent", "sibling"), BP(iterations=2))
    parser.fit(TRAIN, dev=DEV, epochs=4, rate=0.1, threads=1)
    return parser


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


def test_a_saved_parser_gives_the_same_trees(trained: Parser, tmp_path: Path) -> None:
    trained.save(tmp_path / "p.loopwise")
    loaded = Parser.load(tmp_path / "p.loopwise")
    assert [t.sentence.lines for t in loaded.parse(DEV)] == [t.sentence.lines for t in trained.parse(DEV)]
    assert loaded.structure == trained.structure and loaded.inference.iterations == 2
    assert loaded.history.dev == trained.history.dev
    loaded.save(tmp_path / "q.loopwise")
    assert (tmp_path / "p.loopwise").read_bytes() == (tmp_path / "q.loopwise").read_bytes()


def test_damaged_and_foreign_files_are_refused(trained: Parser, tmp_path: Path) -> None:
    path = tmp_path / "p.loopwise"
    trained.save(path)
    tensors, description = read_container(path)
    description.pop("loopwise")
    for change, words in [
        ({"kind": "checkpoint"}, "not a Parser"),
        ({"template_version": 1}, "features of another version of loopwise; train it again"),
        ({"structure": {"factors": ["cousin"], "projective": True, "single_root": True}}, "no factor 'cousin'"),
        ({"vocabulary": {**description["vocabulary"], "words": 3}}, "'vocabulary.words' must be a list of texts"),
        ({"vocabulary": {**description["vocabulary"], "coarse": []}}, "damaged"),
    ]:
        write_container(path, tensors, {**description, **change})
        with pytest.raises(FormatError, match=words):
            Parser.load(path)
    write_container(path, {**tensors, "trees.rows": tensors["trees.rows"] + 10**6}, description)
    with pytest.raises(FormatError, match=r"'trees.rows' holds .* it must be 0 to 49999"):
        Parser.load(path)


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


def test_pruning_leaves_nearly_all_gold_arcs(trained: Parser) -> None:
    report = trained.pruning_report(DEV)
    assert report["oracle"] >= trained.evaluate(DEV).uas
    assert report["recall"] > 0.97 and 1 <= report["arcs_per_word"] <= 11
    everything = small((), pruning=None)
    everything.fit(TRAIN[:10], epochs=1, rate=0.1, labels=False)
    assert everything.pruning_report(DEV)["oracle"] == 1.0
    # Relations that came with the sentences are not passed off as found.
    (tree,) = everything.parse(DEV[:1])
    assert set(tree.relations) == {"root", "dep"} and tree.relations.count("root") == 1


@pytest.mark.parametrize(
    ("loss", "factors", "inference"),
    [
        (CLL(), ("grandparent", "sibling"), BP(iterations=2)),
        (CLL(), (), BP(iterations=1)),
        (L2(), (), BP(iterations=1, gradient=Perturbation())),
        ((L2(), AnnealedRisk()), ("sibling",), BP(iterations=1)),
        (L2(), ("grandparent",), Exact()),
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
    from loopwise.learn import ledger

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


def test_prepared_data_are_shared_and_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwise.learn.hashed import HashedObjective

    options = {"epochs": 2, "rate": 0.1, "labels": False, "seed": 3}
    path = tmp_path / "pruning.checkpoint"
    data = small(()).prepare(TRAIN[:30], DEV, seed=3, checkpoint=path)
    for factors in ((), ("sibling",)):
        alone, shared = small(factors, BP(iterations=1)), small(factors, BP(iterations=1))
        history = alone.fit(TRAIN[:30], dev=DEV, **options)
        assert shared.fit(data, **options).dev == history.dev
        assert np.array_equal(alone.model.weights, shared.model.weights)
        assert np.array_equal(alone.pruner.weights, shared.pruner.weights)
    monkeypatch.setattr(HashedObjective, "round", lambda *_, **__: pytest.fail("trained again"))
    again = small(()).prepare(TRAIN[:30], DEV, seed=3, checkpoint=path)
    assert np.array_equal(again.arcs.heads, data.arcs.heads) and np.array_equal(again.dev_arcs.mods, data.dev_arcs.mods)
    for other, words in [
        (small((), projective=False), "other trees"),
        (small((), pruning=None), "other pruning"),
        (small((), templates=Templates(size=50_000, cutoff=2)), "other cutoff"),
    ]:
        with pytest.raises(ValueError, match=words):
            other.fit(data)
    with pytest.raises(ValueError, match="development sentences of their own"):
        small(()).fit(data, dev=DEV)
    with pytest.raises(FormatError, match="another run: its pruning was"):
        small((), pruning=None).prepare(TRAIN[:30], DEV, seed=3, checkpoint=path)


def test_training_goes_on_from_another_parser() -> None:
    options = {"epochs": 2, "rate": 0.1, "labels": False}
    data = small().prepare(TRAIN[:30], DEV)
    first, second, staged = (small(("sibling",), BP(iterations=1)) for _ in range(3))
    first.fit(data, loss=L2(), **options)
    second.fit(data, loss=AnnealedRisk(), start=first, **options)
    history = staged.fit(data, loss=(L2(), AnnealedRisk()), **options)
    assert np.array_equal(staged.model.weights, second.model.weights)
    assert history.dev == first.history.dev + second.history.dev
    harmed = small(("sibling",), BP(iterations=1))
    history = harmed.fit(data, loss=AnnealedRisk(), epochs=1, rate=1e4, labels=False, start=first)
    assert max(history.dev) < max(first.history.dev)  # so the start was better, and stays
    assert history.best == 0 and np.array_equal(harmed.model.weights, first.model.weights)
    staged = small(("sibling",), BP(iterations=1))
    with pytest.raises(ValueError, match="other words, tags or features"):
        staged.fit(TRAIN[30:], start=first)
    with pytest.raises(ValueError, match="not trained"):
        staged.fit(data, start=small())


def test_a_prior_is_gentle_to_the_weights_training_starts_from() -> None:
    """At a rate at which nothing is learnt, one epoch shrinks them by what the prior asks for, no more."""
    data = small().prepare(TRAIN[:30])
    first, second = (small(("sibling",), BP(iterations=1)) for _ in range(2))
    first.fit(data, loss=L2(), epochs=1, rate=0.1, labels=False)
    second.fit(data, loss=L2(), epochs=1, rate=1e-6, l2=10.0, start=first, labels=False)
    before, after = first.model.weights, second.model.weights
    np.testing.assert_allclose(after[before != 0], before[before != 0], atol=1e-4)


def test_patience_means_nothing_without_development_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwise.learn import ledger

    written, left = ledger.write_checkpoint, [4]  # two of the pruning model, two of the trees

    def interrupted(*arguments: object) -> None:
        written(*arguments)  # type: ignore[arg-type]
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    options = {"epochs": 5, "patience": 1, "rate": 0.1, "labels": False, "checkpoint": tmp_path / "run.checkpoint"}
    monkeypatch.setattr(ledger, "write_checkpoint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small(()).fit(TRAIN[:10], **options)
    assert len(small(()).fit(TRAIN[:10], **options)) == 5


@pytest.mark.parametrize("projective", [True, False])
def test_the_system_of_a_parser_has_its_beliefs(projective: bool) -> None:
    """Through the template, a union of sentences and `lw.BP`; and its losses have a gradient for the hashed weights."""
    parser = small(inference=BP(iterations=3, tolerance=0), projective=projective, single_root=projective)
    parser.fit(TRAIN[:30], epochs=1, rate=0.1, labels=False)
    system, examples = parser.system(), parser.examples(DEV)
    for example, found, tree in zip(examples, system.predict_marginals(examples), parser.parse(DEV), strict=True):
        expected = tree.marginals[example.arcs.heads, example.arcs.mods]
        np.testing.assert_allclose(found[:, 1].numpy(), expected, atol=1e-10)
    gold = system.examples(examples).targets.values
    assert int((gold == 1).sum()) == sum(map(len, DEV))
    before = evaluate(system, examples, MSE())
    fit(system, examples, MSE(), optimizer=lambda p: AdaGradCOMID(p, rate=0.01), epochs=2, progress=False)
    assert evaluate(system, examples, MSE()) < before
    exact = small(("grandparent",), Exact())
    exact.fit(TRAIN[:5], epochs=1, rate=0.1, labels=False)
    with pytest.raises(ValueError, match="no method of graphs"):
        exact.system()


def test_tags_of_another_kind_are_told(trained: Parser) -> None:
    for names, kind in (("coarse_tags", "fine tags .XPOS."), ("fine_tags", "coarse tags .UPOS.")):
        given = [make_sentence(s.forms, getattr(s, names), getattr(s, names)) for s in DEV[:5]]
        with pytest.warns(DataWarning, match=f"100% of the {kind} do not occur in the training data"):
            trained.parse(given)


def test_patience_and_the_search_for_a_rate() -> None:
    parser = small((), BP(iterations=1))
    history = parser.fit(TRAIN, dev=TRAIN[:5], epochs=30, patience=2, rate=None, labels=False)
    assert len(history) < 30 and "no better on the development data for 2 epochs" in history.ended
    assert parser.evaluate(DEV).uas > 0.9


def test_bad_sentences_stop_training_or_are_left_out() -> None:
    bad = make_sentence(["a", "b"], ["X", "X"], heads=[2, 1])
    with pytest.raises(FormatError, match="cycle"):
        small().fit([*TRAIN[:5], bad])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LoopwiseWarning)
        small(()).fit([*TRAIN[:5], bad], epochs=1, rate=0.1, skip_bad=True, labels=False)
    assert "left out" in str(caught[0].message) and "cycle: 1 -> 2 -> 1" in str(caught[0].message)
    with pytest.raises(ValueError, match="no sentence with words to train on"):
        small().fit([make_sentence([], [])])
    with pytest.raises(ValueError, match="no sentence with words in the development data"):
        small().fit(TRAIN[:5], dev=[])
    with pytest.raises(ValueError, match="not trained"):
        small().parse(DEV)


def test_options_that_cannot_be_are_refused() -> None:
    for make, words in [
        (lambda: Parser(("uncle",)), "no factor 'uncle'"),
        (lambda: Parser(("sibling",), Exact()), "leave out the siblings"),
        (lambda: Parser(("grandparent",), Exact(), projective=False), "needs projective trees"),
        (lambda: Parser((), MeanField()), "not MeanField"),
        (lambda: Parser((), BP(iterations=0)), "at least 1 iteration"),
        (lambda: Parser((), BP(damping=0.5)), "no damping"),
        (lambda: Templates(size=0), "must be 1 to"),
        (lambda: Pruning(threshold=1.0), "below 1, not 1.0"),
        (lambda: AnnealedRisk(start=0.1, end=0.2), "must fall"),
        (lambda: small().fit(TRAIN, epochs=0, rate=0.1), "epochs must be at least 1, not 0"),
        (lambda: small().fit(TRAIN, loss="l2"), r"trained for CLL\(\), L2\(\) or AnnealedRisk\(\)"),
        (lambda: small().fit(TRAIN, loss=()), "nothing to train for"),
    ]:
        with pytest.raises(ValueError, match=words):
            make()


def test_paths_are_read(trained: Parser, tmp_path: Path) -> None:
    write_conllu(tmp_path / "dev.conllu", DEV)
    assert trained.evaluate(tmp_path / "dev.conllu") == trained.evaluate(DEV)
    assert trained.evaluate(str(tmp_path / "dev.conllu")) == trained.evaluate(DEV)


def test_words_without_parts_of_speech(trained: Parser) -> None:
    for given in ([["The", "dog"]], ["The dog"], [None]):
        with pytest.raises(ValueError, match=r"sentence 0 is .*words with their parts of speech: give a CoNLL-U file"):
            trained.parse(given)  # type: ignore[arg-type]
