"""``loopwise parser``: train a dependency parser, parse, score, look.

Files are CoNLL-U or CoNLL-X, plain or ``.gz``; ``-`` is a standard stream. Reports go to standard output (to standard
error where that carries sentences).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import Checkpoint, SeveralAnswers, grouped
from loopwise.cli.messages import is_interactive, one_line_each, say
from loopwise.cli.targets import MOST_ITERATIONS, SUFFIX, target_of

if TYPE_CHECKING:
    from loopwise.apps.parser.estimator import Parser
    from loopwise.apps.parser.objectives import Objective
    from loopwise.apps.parser.report import AttachmentScores
    from loopwise.apps.partial import RankedAnswer
    from loopwise.formats.conllu import Sentence
    from loopwise.inference.base import Inference
    from loopwise.learn.history import History
    from loopwise.plot.trees import DrawnTree

parser = typer.Typer(no_args_is_help=True, help="Dependency trees: train a parser, parse, score, look.")

STANDARD_STREAM = "-"


class ParserLossName(str, Enum):
    """What to train for, by name."""

    L2 = "l2"
    CLL = "cll"
    AR = "ar"
    L2_AR = "l2+ar"


class ParserMethodName(str, Enum):
    """Inference by name."""

    BP = "bp"
    EXACT = "exact"


@parser.callback()
def _parser() -> None:
    pass


@dataclass(frozen=True)
class TagsOf:
    """Taggers whose tags replace those of files."""

    tagger: Annotated[
        Path | None, typer.Option(help="A file of loopwise tagger train: its tags replace the coarse ones.")
    ] = None
    fine_tagger: Annotated[Path | None, typer.Option(help="The same for fine tags.")] = None

    def read(self, path: Path, *, plain: bool = False) -> list[Sentence]:
        """Sentences, with the tags of a tagger if one is given: coarse ones, and fine ones if there is a second.

        ``plain``: the file may be plain text, a sentence a line, which then needs a tagger."""
        from loopwise.formats.conllu import parse_conllu
        from loopwise.formats.files import display_name, read_text
        from loopwise.formats.plain_text import is_treebank, words_of_lines

        text, where = read_text(str(path)), display_name(str(path))
        if plain and not is_treebank(text):
            if self.tagger is None:
                raise ValueError(
                    f"{where} is plain text, and a parser needs parts of speech: give --tagger, a file of loopwise "
                    "tagger train, or CoNLL-U"
                )
            found = [_untagged(words) for words in words_of_lines(text, where)]
        else:
            found = list(parse_conllu(text, where))
        if self.fine_tagger is not None and self.tagger is None:
            raise ValueError("--fine-tagger sets fine tags beside the coarse ones of --tagger; give that too")
        if self.tagger is None:
            return found
        from loopwise.apps import Tagger

        forms = [sentence.forms for sentence in found]
        coarse = Tagger.load(self.tagger).predict(forms)
        fine = [None] * len(found) if self.fine_tagger is None else Tagger.load(self.fine_tagger).predict(forms)
        return [sentence.with_tags(mine, finer) for sentence, mine, finer in zip(found, coarse, fine, strict=True)]


@dataclass(frozen=True)
class ParserModel:
    """What a new parser is."""

    iterations: Annotated[
        int, typer.Option(help="Iterations of belief propagation, in training and in use.", max=MOST_ITERATIONS)
    ] = 4
    factors: Annotated[
        str, typer.Option(help="Pairs of arcs to score, separated by commas: grandparent, sibling, or none.")
    ] = "grandparent,sibling"
    inference: Annotated[ParserMethodName, typer.Option(help="bp, or exact, which knows no siblings.")] = (
        ParserMethodName.BP
    )
    nonprojective: Annotated[bool, typer.Option("--nonprojective", help="Arcs may cross.")] = False
    multi_root: Annotated[bool, typer.Option("--multi-root", help="Several words may be roots.")] = False
    prune: Annotated[bool, typer.Option("--prune/--no-prune", help="Cut unlikely arcs first.")] = True
    size: Annotated[int, typer.Option(help="Weights that hashed features share.")] = 20_000_000
    cutoff: Annotated[int, typer.Option(help="Words seen fewer times are unknown.")] = 3

    def parser(self) -> Parser:
        """A parser to be trained."""
        from loopwise.apps.parser.estimator import Parser
        from loopwise.apps.parser.options import Pruning, Templates

        return Parser(
            _factors(self.factors),
            _inference(self.inference, self.iterations),
            projective=not self.nonprojective,
            single_root=not self.multi_root,
            templates=Templates(size=self.size, cutoff=self.cutoff),
            pruning=Pruning() if self.prune else None,
        )


@dataclass(frozen=True)
class ParserSettings:
    """How a parser is trained."""

    loss: Annotated[ParserLossName, typer.Option(help="What to train for.")] = ParserLossName.L2
    epochs: Annotated[int, typer.Option(help="Passes over the sentences.")] = 10
    batch: Annotated[int, typer.Option(help="Sentences a step.")] = 15
    rate: Annotated[float | None, typer.Option(help="Learning rate.", show_default="0.01")] = None
    probe: Annotated[bool, typer.Option("--probe", help="Find the learning rate by trials.")] = False
    l2: Annotated[float, typer.Option("--l2", help="Strength of the prior, times the sentences.")] = 0.0
    patience: Annotated[int | None, typer.Option(help="Epochs without a better one before stopping.")] = None
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Also train relations.")] = True
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out sentences without a tree.")] = False
    partial: Annotated[
        bool, typer.Option("--partial", help="Heads that are _ are not known; learn from the others.")
    ] = False

    def of_fit(self) -> dict[str, Any]:
        """What :meth:`Parser.fit` is told."""
        from loopwise.apps.parser.options import RATE

        if self.probe and self.rate is not None:
            raise ValueError("--probe finds the rate that --rate gives; use one of them")
        rate = None if self.probe else RATE if self.rate is None else self.rate
        names = ("epochs", "batch", "l2", "patience", "labels", "skip_bad", "partial")
        return {"rate": rate, **{name: getattr(self, name) for name in names}}


@parser.command()
@grouped
def train(
    sentences: Annotated[Path, typer.Argument(metavar="TRAIN", help="Sentences with trees.")],
    *,
    dev: Annotated[Path | None, typer.Option(help="Sentences to choose the best epoch by.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to save the parser.", show_default=f"TRAIN with {SUFFIX}")
    ] = None,
    model: ParserModel,
    training: ParserSettings,
    tags: TagsOf,
    checkpoint: Checkpoint = None,
    threads: Annotated[int | None, typer.Option(help="Threads.", show_default="all cores")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON, with the history.")] = False,
    seed: Annotated[int, typer.Option(help="For the order of sentences.")] = 0,
) -> None:
    """Train a parser on sentences with trees, for the inference it will be used with."""
    with one_line_each():
        from loopwise.formats.conllu import NO_HEAD

        options, new = training.of_fit(), model.parser()
        inputs = (sentences, dev, tags.tagger, tags.fine_tagger)
        target = target_of(out, Path(_stem(sentences) + SUFFIX), inputs=inputs, checkpoint=checkpoint)
        if dev is not None and str(sentences) == str(dev) == STANDARD_STREAM:
            raise ValueError("training and development data cannot both come from standard input; give one as a file")
        known, held_out = tags.read(sentences), None if dev is None else tags.read(dev)
        history = new.fit(
            known, held_out, _objectives(training.loss), **options, seed=seed, threads=threads, checkpoint=checkpoint,
            progress=is_interactive(),
        )  # fmt: skip
        new.save(target)
        judged = known if held_out is None else held_out
        if training.partial:  # scores are of whole trees
            judged = [sentence for sentence in judged if NO_HEAD not in sentence.heads]
        _report_training(as_json, new, sentences, target, judged, history)


@parser.command()
@grouped
def predict(
    system: Annotated[Path, typer.Argument(metavar="PARSER", help="A file that loopwise parser train saved.")],
    sentences: Annotated[
        Path,
        typer.Argument(
            metavar="IN", help="Sentences to parse; - is standard input. With --tagger, plain text too: one a line."
        ),
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    confidence: Annotated[
        bool, typer.Option("--confidence", help="The probability of each arc in the last column.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Keep the heads there are; find those that are _.")
    ] = False,
    iterations: Annotated[
        int | None, typer.Option(help="Another number of iterations.", show_default="as trained")
    ] = None,
    tags: TagsOf,
    several: SeveralAnswers,
    threads: Annotated[int | None, typer.Option(help="Threads.", show_default="all cores")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON: heads, relations and probabilities.")] = False,
) -> None:
    """Parse sentences; everything but heads and relations is copied as it is. With --k or --samples, JSON: a line a
    sentence."""
    with one_line_each():
        from loopwise.formats import atomic_write
        from loopwise.formats.conllu import write_conllu

        several.check()
        if confidence and several.wanted:
            raise ValueError("--confidence is of the arcs of one tree; leave it out with --k and --samples")
        target = target_of(out, inputs=(system, sentences, tags.tagger, tags.fine_tagger))
        trained = _load(system, iterations)
        read = tags.read(sentences, plain=True)
        if several.wanted:
            if several.k is not None:
                answers = trained.k_best(read, several.k, partial=partial, threads=threads)
            else:
                answers = trained.sample(
                    read, several.samples or 1, seed=several.seed, partial=partial, threads=threads
                )
            with atomic_write(target) as stream:
                for sentence, found in zip(read, answers, strict=True):
                    stream.write(_several_json(sentence, found))
            return
        if as_json:
            trees = trained.parse(read, partial=partial, threads=threads)
            with atomic_write(target) as stream:
                for tree in trees:
                    row = {
                        "words": tree.sentence.forms,
                        "heads": list(tree.heads),
                        "relations": list(tree.relations),
                        "confidence": list(tree.confidence),
                    }
                    stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            return
        done = trained.predict(read, confidence=confidence, partial=partial, threads=threads)
        write_conllu(target, done)
        if out is not None:
            say(f"{len(done)} sentences, {sum(map(len, done))} words: {out}")


@parser.command()
def evaluate(
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="Sentences with the right trees.")],
    system: Annotated[Path, typer.Argument(metavar="SYSTEM", help="The same text with trees to be scored.")],
    lengths: Annotated[bool, typer.Option("--lengths", help="Also recall and precision by length of arcs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The scores as JSON.")] = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; scoring draws nothing.")] = 0,
) -> None:
    """Score trees: as the CoNLL 2018 shared task does, and by the 2006 rule that leaves out punctuation."""
    with one_line_each():
        from loopwise.apps.parser.report import by_length, score
        from loopwise.formats.conllu import read_conllu

        if str(gold) == str(system) == STANDARD_STREAM:
            raise ValueError("gold and system cannot both come from standard input; give one of them as a file")
        for path in (gold, system):
            if path.suffix == SUFFIX:
                raise ValueError(
                    f"{path} is a parser; parse the text with it (loopwise parser predict), then compare two files of "
                    "trees"
                )
        right, found = read_conllu(str(gold), trees=True), read_conllu(str(system), trees=True)
        scores = score(right, found)
        if not scores.words:
            raise ValueError(f"{gold} has no words, so there is nothing to score")
        rows = by_length(right, found) if lengths else None
        if as_json:
            report: dict[str, Any] = scores.to_json()
            if rows is not None:
                report["by_length"] = rows
            typer.echo(json.dumps(report))
            return
        _show_scores(scores)
        for row in rows or []:
            recall, precision = 100 * row["recall"], 100 * row["precision"]
            typer.echo(
                f"length {row['length']:>6}: recall {recall:6.2f}, precision {precision:6.2f} ({row['gold']} gold arcs)"
            )


@parser.command()
def show(
    sentences: Annotated[Path, typer.Argument(metavar="IN", help="Sentences; their trees are drawn, or the model's.")],
    out: Annotated[Path, typer.Option(help="A .svg file (one sentence) or an .html page.")],
    model: Annotated[Path | None, typer.Option(help="Draw what this parser finds, with its probabilities.")] = None,
    sentence: Annotated[
        int | None, typer.Option(help="Which one, from 1.", show_default="the first; in HTML the first 20")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was drawn, as JSON.")] = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; drawing draws no lots.")] = 0,
) -> None:
    """Draw trees: arcs over the words, as opaque as they are probable."""
    with one_line_each():
        from loopwise.formats import atomic_write
        from loopwise.plot import arc_page

        as_page = _is_page(out)
        target = target_of(out, inputs=(sentences, model))
        chosen = _chosen(TagsOf().read(sentences), sentence, 20 if as_page else 1)
        drawings = _model_drawings(_load(model, None), chosen) if model else [_plain_drawing(each) for each in chosen]
        with atomic_write(target) as stream:
            stream.write(arc_page(drawings, sentences.name) if as_page else str(drawings[0]))
        if as_json:
            typer.echo(json.dumps({"out": str(out), "sentences": len(drawings)}))
        else:
            typer.echo(f"{len(drawings)} drawn: {out}")


def _several_json(sentence: Sentence, found: list[RankedAnswer]) -> str:
    trees = [
        {"heads": list(tree.heads), "relations": list(tree.relations), "probability": share} for tree, share in found
    ]
    return json.dumps({"words": sentence.forms, "trees": trees}, ensure_ascii=False) + "\n"


def _factors(names: str) -> tuple[str, ...]:
    from loopwise.cli.tables import named

    found = tuple(named(names, "--factors"))
    return () if found == ("none",) else found


def _inference(method: ParserMethodName, iterations: int) -> Inference:
    if method is ParserMethodName.EXACT:
        from loopwise.inference.exact.method import Exact

        return Exact()
    from loopwise.inference.messages.message_passing import BP

    return BP(iterations=iterations)


def _objectives(loss: ParserLossName) -> tuple[Objective, ...]:
    from loopwise.apps.parser.objectives import CLL, AnnealedRisk, SquaredDistance

    known: dict[ParserLossName, tuple[Objective, ...]] = {
        ParserLossName.L2: (SquaredDistance(),),
        ParserLossName.CLL: (CLL(),),
        ParserLossName.AR: (AnnealedRisk(),),
        ParserLossName.L2_AR: (SquaredDistance(), AnnealedRisk()),
    }
    return known[loss]


def _stem(path: Path) -> str:
    if str(path) == STANDARD_STREAM:
        raise ValueError("sentences come from standard input; say with --out where to save the parser")
    name = path.name.removesuffix(".gz")
    return name.rsplit(".", 1)[0] if "." in name else name


def _load(path: Path, iterations: int | None) -> Parser:
    from loopwise.apps.parser.estimator import Parser
    from loopwise.inference.messages.message_passing import BP

    trained = Parser.load(path)
    if iterations is None:
        return trained
    if not isinstance(trained.inference, BP):
        raise ValueError("--iterations means nothing to a parser with exact inference; leave it out")
    return trained.with_inference(BP(iterations=iterations, tolerance=trained.inference.tolerance))


def _untagged(words: list[str]) -> Sentence:
    from loopwise.formats.conllu import EMPTY, make_sentence

    return make_sentence(words, [EMPTY] * len(words))


def _report_training(
    as_json: bool, new: Parser, train: Path, target: Path, judged: list[Sentence], history: History
) -> None:
    """``judged``: the development sentences, or those of training if there are none."""
    scores = new.evaluate(judged, skip_bad=True) if history.best is not None and judged else None
    pruned = new.pruning_report(judged, skip_bad=True) if judged else None
    if as_json:
        report: dict[str, Any] = {"train": str(train), "parser": str(target), "history": history.to_json()}
        report["pruning"] = pruned
        if scores is not None:
            report["dev"] = scores.to_json()
        typer.echo(json.dumps(report))
        return
    typer.echo(
        f"loss {history.losses[0]:.4g} in the first epoch, {history.losses[-1]:.4g} in the last ({history.ended}, "
        f"{history.seconds:.1f} s)"
    )
    if pruned is not None:
        heads, share = pruned["arcs_per_word"], 100 * pruned["oracle"]
        typer.echo(f"pruning leaves {heads:.1f} heads a word and {share:.2f} % of the gold arcs")
    if scores is not None:
        typer.echo(f"best on the development data: epoch {history.best}")
        _show_scores(scores)
    typer.echo(f"saved {target}")


def _show_scores(scores: AttachmentScores) -> None:
    typer.echo(f"UAS {100 * scores.uas:.2f}, LAS {100 * scores.las:.2f} (as CoNLL 2018: all {scores.words} words)")
    typer.echo(
        f"UAS {100 * scores.uas_no_punctuation:.2f}, LAS {100 * scores.las_no_punctuation:.2f} (as CoNLL 2006: "
        f"{scores.scored_no_punctuation} words, punctuation left out, relations with their subtypes)"
    )


def _is_page(out: Path) -> bool:
    suffix = out.suffix.lower()
    if suffix not in (".svg", ".html"):
        raise ValueError(f"--out must end in .svg or .html, not {out.name!r}")
    return suffix == ".html"


def _chosen(sentences: list[Sentence], number: int | None, most: int) -> list[Sentence]:
    if not sentences:
        raise ValueError("there is no sentence to draw; give a file with at least one")
    if number is None:
        return sentences[:most]
    if not 1 <= number <= len(sentences):
        raise ValueError(f"--sentence {number} is out of range; the file has {len(sentences)} sentences")
    return [sentences[number - 1]]


def _model_drawings(trained: Parser, sentences: list[Sentence]) -> list[DrawnTree]:
    from loopwise.plot.trees import DrawnTree

    return [
        DrawnTree(tree.sentence.forms, tree.sentence.coarse_tags, tree.heads, tree.relations, tree.marginals)
        for tree in trained.parse(sentences)
    ]


def _plain_drawing(sentence: Sentence) -> DrawnTree:
    from loopwise.plot.trees import DrawnTree

    return DrawnTree(sentence.forms, sentence.coarse_tags, sentence.heads, sentence.relations)
