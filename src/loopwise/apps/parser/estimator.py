"""The dependency parser: what users train, save and run.

In: CoNLL-U or CoNLL-X files, or their sentences. Out: trees with relations and a confidence for every arc. Stage: use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.estimator import not_fitted
from loopwise.apps.parser.arcs import Arcs, Pruner, oracle
from loopwise.apps.parser.distribution import TreeDistribution
from loopwise.apps.parser.fitting import Pieces, TrainingOptions, fit_pieces
from loopwise.apps.parser.labels import Labeller
from loopwise.apps.parser.model import Example, Parses, TreeModel, system_of
from loopwise.apps.parser.objectives import Goal, SquaredDistance, objectives_of
from loopwise.apps.parser.options import FACTORS, RATE, ParserStructure, Pruning, Templates, TreeInference
from loopwise.apps.parser.preparing import (
    Counted,
    ParserData,
    PreparedSentences,
    encode_data,
    epochs_of,
    prepare_data,
    with_trees,
)
from loopwise.apps.parser.report import AttachmentScores, score
from loopwise.apps.parser.saving import kept, rebuilt
from loopwise.apps.parser.vocabulary import UNKNOWN, ParserVocabulary, SentenceArrays, encode
from loopwise.apps.partial import RankedAnswer
from loopwise.apps.saved import SavedEstimator, written
from loopwise.compiled.threads import available_threads
from loopwise.formats.conllu import NO_HEAD, Sentence, read_conllu, write_conllu
from loopwise.formats.errors import FormatError, shortened
from loopwise.formats.files import PathLike, check_apart
from loopwise.graph.structured.k_best import check_count
from loopwise.inference.base import Inference
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.files.card import training_card
from loopwise.learn.files.checkpoint import identify
from loopwise.learn.files.fields import Record
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.hashed import OnlineSettings
from loopwise.learn.history import History
from loopwise.learn.optim.hashed import Floats, Small
from loopwise.learn.progress import progress_bar
from loopwise.learn.system import System
from loopwise.notebook import Shown
from loopwise.notices import DataWarning, warn

Given = PathLike | Sequence[Sentence]
MOSTLY = 0.5  # the share of unknown tags that is worth a word
CONFIDENCE = "ArcConfidence"  # how the last column calls an arc's belief


@dataclass(frozen=True, eq=False)
class ParseTree(Shown):
    """One parsed sentence. ``marginals[h, m]``: the belief that h is the head of m, 0 where the arc was pruned."""

    sentence: Sentence  # with the heads and relations found
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    confidence: tuple[float, ...]  # the belief of each word's arc
    marginals: NDArray[np.float64]  # [n + 1, n + 1]


class Parser(SavedEstimator):
    """A graph-based parser trained for its own inference (Gormley, Dredze & Eisner 2015).

    Time O(T (n^3 + k^2 n)) a sentence for T iterations and k heads a word.

    Parameters
    ----------
    factors: pairs of arcs that are scored, ``"grandparent"`` and ``"sibling"``; none of them is a first-order parser.
    inference: ``BP(iterations=...)``, in training and in use, or ``Exact()`` (grandparents only).
    projective: whether arcs may not cross.
    single_root: one word under the root, as Universal Dependencies has it.
    templates: features.
    pruning: how arcs are cut first; None keeps them all.

    >>> from loopwise import BP
    >>> parser = Parser(factors=("sibling",), inference=BP(iterations=2))  # then: parser.fit("train.conllu")
    """

    def __init__(
        self,
        factors: Sequence[str] = FACTORS,
        inference: Inference | None = None,
        *,
        projective: bool = True,
        single_root: bool = True,
        templates: Templates | None = None,
        pruning: Pruning | None = Pruning(),  # noqa: B008 (frozen)
    ) -> None:
        self.factors, self.projective, self.single_root = factors, projective, single_root
        self.structure = ParserStructure.of(factors, projective, single_root)
        self.inference = BP(iterations=4) if inference is None else inference
        self.templates = Templates() if templates is None else templates
        self.pruning = pruning
        self._run = TreeInference.of(self.inference, self.structure)
        self._vocabulary: ParserVocabulary | None = None
        self._pieces: Pieces | None = None

    def set_params(self, **params: Any) -> Parser:
        """Changes options, as scikit-learn does: the parser is then one that is not trained."""
        super().set_params(**params)
        self.__init__(**self.get_params(deep=False))  # type: ignore[misc]  # what follows from options is made there
        return self

    @property
    def _is_fitted(self) -> bool:
        return self._pieces is not None

    def prepare(
        self,
        train: Given,
        dev: Given | None = None,
        *,
        batch: int = 15,
        seed: int = 0,
        threads: int | None = None,
        checkpoint: PathLike | None = None,
        progress: bool = False,
        skip_bad: bool = False,
        partial: bool = False,
    ) -> PreparedSentences:
        """Sentences with trees, the pruning model trained on them and the arcs it leaves: what :meth:`fit` takes too.

        Parsers of the same trees, pruning and cutoff can share it, whatever their factors, inference and loss. Options
        as in :meth:`fit`; from a ``checkpoint`` that is finished nothing is trained again.
        """
        data = self._data(train, dev, skip_bad, partial)
        settings = OnlineSettings(batch=batch, seed=seed, threads=_threads(threads))
        run = {
            **data.identity(),
            "trees": identify(replace(self.structure, factors=())),
            "templates": f"version {Templates().version}",
            "pruning": identify(self.pruning),
            "settings": identify(replace(settings, threads=1)),
        }
        ledger = Ledger.open(checkpoint, run)
        with progress_bar(progress, epochs_of(self.pruning)) as tell:
            return prepare_data(data, self.structure, self.pruning, settings, ledger, Counted(tell))

    def fit(
        self,
        train: Given | PreparedSentences,
        dev: Given | None = None,
        loss: Goal = SquaredDistance(),  # noqa: B008 (frozen)
        *,
        epochs: int = 10,
        batch: int = 15,
        rate: float | None = RATE,
        l2: float = 0.0,
        patience: int | None = None,
        seed: int = 0,
        threads: int | None = None,
        labels: bool = True,
        start: Parser | None = None,
        checkpoint: PathLike | None = None,
        progress: bool = False,
        skip_bad: bool = False,
        partial: bool = False,
    ) -> History:
        """Trains on sentences with trees; with ``dev``, the weights of the epoch with the best UAS are kept.

        train: a file, sentences, or both sets as :meth:`prepare` gave them. loss: ``SquaredDistance()``, ``CLL()``,
        ``AnnealedRisk()``, or several, each from the weights of the one before. rate: of AdaGrad; None finds one by
        trials on a tenth of the data. l2: strength of the prior times the number of sentences; any makes updates about
        twice as long. labels: also train relations. start: a parser of the same data whose weights to begin with; where
        no epoch is better on ``dev``, they stay. checkpoint: a file from which the same call goes on if it was stopped.
        skip_bad: leave out sentences whose heads form no tree, with a warning, instead of stopping. partial: words may
        have no head (``_``), which is then not known: losses are of the others, likelihood is that of all trees that
        agree with them.
        """
        prepared = train if isinstance(train, PreparedSentences) else None
        if isinstance(train, PreparedSentences):
            if dev is not None:
                raise ValueError("prepared data have development sentences of their own; give these to prepare()")
            train.check(self.structure, self.pruning, self.templates.cutoff)
            data = train.data
        else:
            data = self._data(train, dev, skip_bad, partial)
        settings = OnlineSettings(
            epochs,
            batch,
            RATE if rate is None else rate,
            l2,
            patience,
            seed,
            _threads(threads),
        )
        templates = self._fitting_templates(data.train)
        plan = TrainingOptions(
            data, self.structure, self._run, templates, self.pruning, objectives_of(loss), settings,
            probe=rate is None, labels=labels, prepared=prepared, start=_start_weights(start, data, templates),
        )  # fmt: skip
        ledger = Ledger.open(checkpoint, plan.identity())
        with progress_bar(progress, plan.epochs) as tell:
            pieces = fit_pieces(plan, ledger, tell)
        self._vocabulary, self._pieces = data.vocabulary, pieces
        goals = ", then ".join(type(each).__name__ for each in (loss if isinstance(loss, list | tuple) else [loss]))
        said = f"{len(data.train)} sentences, {data.train.words} words"
        self.card_ = training_card(said, goals, pieces.history, "UAS")
        return pieces.history

    @property
    def vocabulary(self) -> ParserVocabulary:
        """Words, tags and relations that training saw."""
        self._trained()
        assert self._vocabulary is not None
        return self._vocabulary

    @property
    def history(self) -> History:
        """How training went."""
        return self._trained().history

    @property
    def model(self) -> TreeModel:
        """Weights and inference."""
        return self._trained().model

    @property
    def pruner(self) -> Pruner:
        """What cuts arcs."""
        return self._trained().pruner

    @property
    def labeller(self) -> Labeller | None:
        """What chooses relations, if any were trained."""
        return self._trained().labeller

    def with_inference(self, inference: Inference) -> Parser:
        """The same weights under another inference, for instance more iterations than it was trained for."""
        pieces = self._trained()
        other = Parser(
            self.structure.factors, inference, projective=self.structure.projective,
            single_root=self.structure.single_root, templates=self.templates, pruning=self.pruning,
        )  # fmt: skip
        other._vocabulary = self._vocabulary
        other._pieces = replace(pieces, model=replace(pieces.model, run=other._run))
        return other

    def system(self) -> System:
        """The trained model as a :class:`~loopwise.System` of examples that :meth:`examples` gives: for other inference
        methods and losses, or to look inside. A copy: what is trained there does not change the parser."""
        return system_of(self.model, self.vocabulary.tags)

    def examples(self, sentences: Given, *, threads: int | None = None) -> list[Example]:
        """Sentences as :meth:`system` takes them: pruned, those without words left out."""
        corpora = [encode([sentence], self.vocabulary) for sentence in self._read(sentences) if len(sentence)]
        return [Example(corpus, self._arcs(corpus, None, _threads(threads))) for corpus in corpora]

    def parse(
        self, sentences: Given, *, partial: bool = False, by_odds: bool = False, threads: int | None = None
    ) -> list[ParseTree]:
        """A tree for each sentence. ``partial``: heads that sentences already have are kept, the others found.

        ``by_odds``: decode by the log-odds of beliefs instead of the beliefs, which is not minimum Bayes risk.
        """
        given = self._read(sentences)
        corpus, parses, labels = self._parse(given, partial, by_odds, threads)
        names, confidence = self.vocabulary.relations, parses.confidence(corpus)
        trees = []
        heads, relations = corpus.split(parses.heads), None if labels is None else corpus.split(labels)
        for place, (sentence, sure) in enumerate(zip(given, corpus.split(confidence), strict=True)):
            found = tuple(heads[place].tolist())
            named = _named(sentence, found, None if relations is None else relations[place], names, partial)
            marginals = parses.marginals(corpus, place)
            new = sentence.with_tree(found, named)
            trees.append(ParseTree(new, found, tuple(named), tuple(sure.tolist()), marginals))
        return trees

    @overload
    def predict(
        self,
        sentences: Given,
        *,
        k: None = None,
        confidence: bool = False,
        partial: bool = False,
        by_odds: bool = False,
        threads: int | None = None,
    ) -> list[Sentence]: ...
    @overload
    def predict(
        self, sentences: Given, *, k: int, partial: bool = False, threads: int | None = None
    ) -> list[list[RankedAnswer]]: ...
    def predict(
        self,
        sentences: Given,
        *,
        k: int | None = None,
        confidence: bool = False,
        partial: bool = False,
        by_odds: bool = False,
        threads: int | None = None,
    ) -> Any:
        """The sentences with their trees; ``confidence``: the belief of each arc in the last column. ``k``: as
        :meth:`k_best`."""
        if k is not None:
            if confidence or by_odds:
                raise ValueError("confidence and by_odds are about the one tree that is decoded; leave them out with k")
            return self.k_best(sentences, k, partial=partial, threads=threads)
        given = self._read(sentences)
        corpus, parses, labels = self._parse(given, partial, by_odds, threads)
        heads = corpus.split(parses.heads)
        relations = None if labels is None else corpus.split(labels)
        sure = corpus.split(parses.confidence(corpus)) if confidence else None
        done = []
        for place, sentence in enumerate(given):
            found = heads[place].tolist()
            names, mine = self.vocabulary.relations, None if relations is None else relations[place]
            named = _named(sentence, found, mine, names, partial)
            notes = None if sure is None else [f"{CONFIDENCE}={value:.4f}" for value in sure[place].tolist()]
            done.append(sentence.with_tree(found, named, notes))
        return done

    def k_best(
        self, sentences: Given, k: int, *, partial: bool = False, threads: int | None = None
    ) -> list[list[RankedAnswer]]:
        """The k most probable trees of each sentence, best first: ``(sentence with the tree, probability)``.

        Under the distribution of trees that inference ended with, among arcs that were not pruned: the model's own
        where it has no pairs of arcs, otherwise that of belief propagation. The first need not be what :meth:`predict`
        gives, which has the most arcs right on average. ``partial``: as for :meth:`parse`.
        """
        check_count(k)
        return self._several(sentences, partial, threads, lambda trees: trees.best(k))

    def sample(
        self, sentences: Given, count: int = 1, *, seed: int = 0, partial: bool = False, threads: int | None = None
    ) -> list[list[RankedAnswer]]:
        """``count`` trees drawn for each sentence, with their probabilities; of the distribution of :meth:`k_best`."""
        check_count(count)
        generator = np.random.default_rng(seed)
        return self._several(sentences, partial, threads, lambda trees: trees.sample(count, generator))

    def _several(
        self,
        sentences: Given,
        partial: bool,
        threads: int | None,
        choose: Callable[[TreeDistribution], list[tuple[list[int], float]]],
    ) -> list[list[RankedAnswer]]:
        given = self._read(sentences)
        corpus, parses, _ = self._parse(given, partial, False, threads)
        nothing: list[tuple[list[int], float]] = [([], 1.0)]
        found = [nothing if one is None else choose(one) for one in parses.trees(corpus, self.structure)]
        answers: list[list[RankedAnswer]] = [[] for _ in given]
        for rank in range(max(map(len, found), default=0)):
            there = [place for place, trees in enumerate(found) if rank < len(trees)]
            some = corpus.select(np.array(there, dtype=np.int64))
            heads = np.full(len(some.heads), NO_HEAD, dtype=np.int64)
            heads[some.word_columns] = [head for place in there for head in found[place][rank][0]]
            labels = self._labels(some, heads, _threads(threads))
            names = [None] * len(there) if labels is None else some.split(labels)
            for place, mine in zip(there, names, strict=True):
                tree, share = found[place][rank]
                named = _named(given[place], tree, mine, self.vocabulary.relations, partial)
                answers[place].append(RankedAnswer(given[place].with_tree(tree, named), share))
        return answers

    def parse_file(
        self,
        source: PathLike,
        target: PathLike,
        *,
        confidence: bool = False,
        partial: bool = False,
        threads: int | None = None,
    ) -> int:
        """Parses a file to a file (``-``: standard streams), gz by name; how many sentences. Whole or not at all."""
        check_apart([(f"the target {target}", target)], [source])
        done = self.predict(source, confidence=confidence, partial=partial, threads=threads)
        write_conllu(target, done)
        return len(done)

    def evaluate(self, gold: Given, *, threads: int | None = None, skip_bad: bool = False) -> AttachmentScores:
        """Attachment scores on sentences with trees; ``skip_bad`` as in :meth:`fit`."""
        sentences = with_trees(self._read(gold), False, skip_bad)
        return score(sentences, self.predict(sentences, threads=threads))

    def score(self, gold: Given) -> float:
        """The share of words with the right head (UAS), for searches over options."""
        return self.evaluate(gold).uas

    def beliefs(self, gold: Given, *, threads: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The belief of each decoded arc of all sentences, and whether it is right: what calibration is about."""
        sentences = self._read(gold)
        corpus, parses, _ = self._parse(sentences, False, False, threads)
        words = corpus.word_columns
        return parses.confidence(corpus)[words], parses.heads[words] == corpus.heads[words]

    def pruning_report(self, gold: Given, *, threads: int | None = None, skip_bad: bool = False) -> dict[str, float]:
        """What pruning leaves of gold trees: :func:`loopwise.apps.parser.arcs.oracle`; ``skip_bad`` as in
        :meth:`fit`."""
        corpus = encode(with_trees(self._read(gold), False, skip_bad), self.vocabulary)
        arcs = self._arcs(corpus, None, _threads(threads))
        return oracle(corpus, arcs, self.structure)

    @property
    def _budget(self) -> str:
        return written(self.inference)

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return kept(self)

    @classmethod
    def _rebuilt(cls, told: Record) -> Parser:
        return rebuilt(cls, told)

    def _parse(
        self, sentences: Sequence[Sentence], partial: bool, by_odds: bool, threads: int | None
    ) -> tuple[SentenceArrays, Parses, Small | None]:
        pieces, cores = self._trained(), _threads(threads)
        corpus = encode(sentences, self.vocabulary)
        self._check_tags(corpus)
        arcs = self._arcs(corpus, corpus.heads if partial else None, cores)
        parses = pieces.model.parse(corpus, arcs, self.vocabulary.tags, cores, by_odds)
        if parses.failed.any():
            sentence = sentences[int(np.flatnonzero(parses.failed)[0])]
            kind = "projective " if self.structure.projective else ""
            raise FormatError(
                sentence.where,
                sentence.line,
                f"no {kind}tree {'of one root ' if self.structure.single_root else ''}has the heads given here",
            )
        return corpus, parses, self._labels(corpus, parses.heads, cores)

    def _labels(self, corpus: SentenceArrays, heads: Any, threads: int) -> Small | None:
        labeller = self.labeller
        return None if labeller is None else labeller.relations(corpus, heads, self.vocabulary, threads)

    def _check_tags(self, corpus: SentenceArrays) -> None:
        """A warning where most tags are not those of training: the parser then hardly sees anything."""
        for row, kind, column in ((2, "fine", "XPOS"), (3, "coarse", "UPOS")):
            share = np.count_nonzero(corpus.tokens[row] == UNKNOWN) / max(1, corpus.words)
            if share > MOSTLY:
                warn(
                    f"{share:.0%} of the {kind} tags ({column}) do not occur in the training data; give tags of the "
                    "same kind, or train on tags like these",
                    DataWarning,
                )

    def _arcs(self, corpus: SentenceArrays, given: Small | None, threads: int) -> Arcs:
        return self.pruner.arcs(corpus, self.structure, self.vocabulary.tags, given, threads)

    def _fitting_templates(self, corpus: SentenceArrays) -> Templates:
        """Without copies for coarse tags where they are the fine ones."""
        same = bool((corpus.tokens[2] == corpus.tokens[3]).all())
        return replace(self.templates, coarse=False) if same else self.templates

    def _data(self, train: Given, dev: Given | None, skip_bad: bool, partial: bool) -> ParserData:
        held_out, single_root = None if dev is None else self._read(dev), self.structure.single_root
        return encode_data(self._read(train), held_out, self.templates.cutoff, single_root, skip_bad, partial)

    def _read(self, given: Given) -> list[Sentence]:
        if isinstance(given, str | os.PathLike):
            return read_conllu(given)
        sentences = list(given)
        for number, sentence in enumerate(sentences):
            if not isinstance(sentence, Sentence):
                raise ValueError(
                    f"sentence {number} is {shortened(repr(sentence))}; a parser takes words with their parts of "
                    "speech: give a CoNLL-U file, or lw.formats.conllu.make_sentence(words, tags)"
                )
        return sentences

    def _trained(self) -> Pieces:
        if self._pieces is None:
            raise not_fitted("this parser is not trained; call fit(), or Parser.load() a file")
        return self._pieces


def _start_weights(start: Parser | None, data: ParserData, templates: Templates) -> Floats | None:
    """Weights to begin with, if they are those of the same features."""
    if start is None:
        return None
    if start.vocabulary != data.vocabulary or start.model.templates != templates:
        raise ValueError(
            "the parser to start from has other words, tags or features; train it on the same data with the same "
            "templates, or start from none"
        )
    return start.model.weights


def _named(sentence: Sentence, heads: Sequence[int], numbers: Any, names: Sequence[str], partial: bool) -> list[str]:
    """Relations by name, bare ones where none were trained; those that came with a given head stay."""
    if numbers is None:
        found = ["root" if head == 0 else "dep" for head in heads]
    else:
        found = [names[number] for number in numbers.tolist()]
    if not partial:
        return found
    return [
        mine if head != NO_HEAD and mine != "_" else new
        for mine, new, head in zip(sentence.relations, found, sentence.heads, strict=True)
    ]


def _threads(wanted: int | None) -> int:
    return available_threads() if wanted is None else wanted
