"""Before trees are trained: sentences as arrays, the pruning model, the arcs it leaves.

In: training and development sentences. Out: :class:`PreparedSentences`, which parsers that differ in factors, inference
or loss share. Stage: use.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loopwise.apps.parser.arcs import BASIC, Arcs, Pruner, interleaved, learn_pruner, nearest_heads
from loopwise.apps.parser.objectives import CLL
from loopwise.apps.parser.options import ParserStructure, Pruning, TreeInference
from loopwise.apps.parser.tasks import TreeTask
from loopwise.apps.parser.vocabulary import ParserVocabulary, SentenceArrays, encode
from loopwise.formats.conllu import NO_HEAD, Sentence, check_tree
from loopwise.formats.errors import FormatError
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.course import Rounds
from loopwise.learn.files.checkpoint import checksum, identify
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.hashed import HashedModel, HashedObjective, OnlineSettings
from loopwise.learn.history import History
from loopwise.learn.optim.hashed import Floats
from loopwise.learn.progress import Tell
from loopwise.learn.trainer import Limits, train
from loopwise.notices import DataWarning


@dataclass(frozen=True, eq=False)
class ParserData:
    """Sentences as arrays, under the vocabulary of those for training."""

    train: SentenceArrays
    dev: SentenceArrays | None
    vocabulary: ParserVocabulary
    cutoff: int  # of that vocabulary

    def identity(self) -> dict[str, str]:
        """What tells data apart."""
        return {"training data": _describe(self.train), "development data": _describe(self.dev)}


@dataclass(frozen=True, eq=False)
class PreparedSentences:
    """Data with the arcs that are left of them: those of training sentences by models that have not seen them."""

    data: ParserData
    structure: ParserStructure  # of the trees; it has no factors
    pruning: Pruning | None
    pruner: Pruner
    arcs: Arcs
    dev_arcs: Arcs | None

    def identity(self) -> str:
        """What tells prepared data apart."""
        arrays = (self.arcs.start, self.arcs.heads, self.arcs.mods)
        return f"{len(self.arcs.heads)} arcs (checksum {checksum(*arrays)})"

    def check(self, structure: ParserStructure, pruning: Pruning | None, cutoff: int) -> None:
        """A ValueError if a parser of these options would have prepared the data in another way."""
        for name, mine, theirs in [
            ("trees", self.structure, replace(structure, factors=())),
            ("pruning", self.pruning, pruning),
            ("cutoff", self.data.cutoff, cutoff),
        ]:
            if mine != theirs:
                raise ValueError(
                    f"these data were prepared for a parser of other {name}, {identify(mine)}, not {identify(theirs)}; "
                    "prepare them with a parser of the same options"
                )


def encode_data(
    train: Sequence[Sentence],
    dev: Sequence[Sentence] | None,
    cutoff: int,
    single_root: bool,
    skip_bad: bool,
    partial: bool = False,
) -> ParserData:
    """Sentences with trees as arrays; those without words, or bad ones if asked to, are left out. ``partial``: heads
    may be missing."""
    sentences = with_trees(train, single_root, skip_bad, partial)
    if not sentences:
        raise ValueError("there is no sentence with words to train on; give at least one")
    vocabulary = ParserVocabulary.learn(sentences, cutoff)
    if dev is None:
        return ParserData(encode(sentences, vocabulary), None, vocabulary, cutoff)
    held_out = with_trees(dev, single_root, skip_bad, partial)
    if not held_out:
        raise ValueError("there is no sentence with words in the development data; give at least one, or no such data")
    return ParserData(encode(sentences, vocabulary), encode(held_out, vocabulary), vocabulary, cutoff)


def with_trees(
    sentences: Sequence[Sentence], single_root: bool, skip_bad: bool, partial: bool = False
) -> list[Sentence]:
    """Those that have words; heads that form no tree are an error, or a warning if such sentences are to be left
    out. ``partial``: of those with some heads; sentences without any teach nothing.
    """
    kept: list[Sentence] = []
    for sentence in sentences:
        try:
            check_tree(sentence, single_root=single_root, partial=partial)
        except FormatError as problem:
            if not skip_bad:
                raise
            warnings.warn(DataWarning(f"left out: {problem}"), stacklevel=3)
            continue
        if len(sentence) and any(head != NO_HEAD for head in sentence.heads):
            kept.append(sentence)
    return kept


def prepare_data(
    data: ParserData,
    structure: ParserStructure,
    pruning: Pruning | None,
    settings: OnlineSettings,
    ledger: Ledger,
    counted: Counted,
) -> PreparedSentences:
    """Trains the pruning models, those that the ledger does not have yet, and prunes."""
    work = _Work(data, replace(structure, factors=()), pruning, settings, ledger, counted)
    pruner = learn_pruner(data.train, data.vocabulary, pruning)
    if pruning is not None:
        pruner = replace(pruner, weights=work.weights(pruner, data.train, "pruning"))
    arcs = work.training_arcs(pruner)
    dev_arcs = None if data.dev is None else work.prune(pruner, data.dev)
    return PreparedSentences(data, work.structure, pruning, pruner, arcs, dev_arcs)


def epochs_of(pruning: Pruning | None) -> int:
    """Of all pruning models together."""
    return 0 if pruning is None else (pruning.folds + (pruning.folds > 1)) * pruning.epochs


@dataclass
class Counted:
    """A progress bar over several trainings: epochs of earlier ones are added."""

    tell: Tell
    before: float = 0.0
    note: str = ""

    def phase(self, name: str) -> Tell:
        before = self.before
        return lambda done, text: self.tell(before + done, f"{name}: {text}{self.note}")


def run_phase(
    name: str,
    make: Callable[[], HashedModel],
    size: int,
    settings: OnlineSettings,
    ledger: Ledger,
    counted: Counted,
    *,
    start: Floats | None = None,
    evaluate: Callable[[Floats], float] | None = None,
    probe: bool = False,
) -> tuple[Floats, History]:
    """Trains one table, unless the ledger has it: its weights ``[size]``, and how it went.

    ``start``: weights to begin with instead of 0; they are kept where no epoch is better on the development data.
    """
    objective = HashedObjective(make, size, settings, start=start, evaluate=evaluate, probe=probe)
    limits = Limits((Rounds(),), settings.epochs, patience=settings.patience, from_start=start is not None)
    history = train(objective, limits, ledger=ledger, name=name, tell=counted.phase(name))
    counted.before += settings.epochs
    return objective.result, history


@dataclass(frozen=True, eq=False)
class _Work:
    data: ParserData
    structure: ParserStructure
    pruning: Pruning | None
    settings: OnlineSettings
    ledger: Ledger
    counted: Counted

    def prune(self, pruner: Pruner, corpus: SentenceArrays) -> Arcs:
        return pruner.arcs(corpus, self.structure, self.data.vocabulary.tags, threads=self.settings.threads)

    def training_arcs(self, pruner: Pruner) -> Arcs:
        """Arcs of the training sentences, pruned by models that have not seen them."""
        train = self.data.train
        folds = 1 if self.pruning is None else min(self.pruning.folds, len(train))
        if folds == 1:
            return self.prune(pruner, train)
        pieces, numbers = [], np.arange(len(train))
        for fold in range(folds):
            others = train.select(numbers[numbers % folds != fold])
            weights = self.weights(pruner, others, f"pruning, fold {fold + 1}")
            pieces.append(self.prune(replace(pruner, weights=weights), train.select(numbers[numbers % folds == fold])))
        return interleaved(pieces)

    def weights(self, pruner: Pruner, corpus: SentenceArrays, name: str) -> Floats:
        """A first-order model of words and tags, trained by likelihood."""
        assert self.pruning is not None
        templates = replace(BASIC, size=self.pruning.size)
        run = TreeInference.of(BP(iterations=1), self.structure)

        def make() -> TreeTask:
            nearest = nearest_heads(corpus, self.structure)
            arcs = pruner.candidates(corpus).with_heads(corpus, nearest)
            tags = self.data.vocabulary.tags
            return TreeTask(corpus, arcs, corpus.only_known(nearest), tags, templates, self.structure, run, CLL())

        settings = replace(self.settings, epochs=self.pruning.epochs, rate=self.pruning.rate, patience=None)
        return run_phase(name, make, self.pruning.size, settings, self.ledger, self.counted)[0]


def _describe(corpus: SentenceArrays | None) -> str:
    if corpus is None:
        return "none"
    return f"{len(corpus)} sentences (checksum {checksum(corpus.tokens, np.asarray(corpus.heads), corpus.relations)})"
