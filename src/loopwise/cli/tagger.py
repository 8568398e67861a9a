"""``loopwise tagger train | predict | evaluate``: tags of words (names, say), from column files to column files.

Reports go to standard output, the tagger to a file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import AsJson, Checkpoint, SeveralAnswers, grouped, refuse_idle
from loopwise.cli.messages import one_line_each
from loopwise.cli.targets import SUFFIX, named_after, target_of

if TYPE_CHECKING:
    from loopwise.apps.chain import ChainDecoder, ChainLearner, RankedAnswer, Skip, Tagger, TaggingReport
    from loopwise.formats.columns import TaggedText


tagger = typer.Typer(
    help="Tag words: names, chunks, parts of speech (linear-chain CRF).", no_args_is_help=True, add_completion=False
)


class TagLearnerName(str, Enum):
    """Learners by name."""

    LIKELIHOOD = "likelihood"
    PERCEPTRON = "perceptron"
    SVM = "svm"
    ERM = "erm"
    SAMPLE_RANK = "samplerank"


class TagLossName(str, Enum):
    """What ERM trains for, by name."""

    ENTITY_F1 = "entity-f1"
    ENTITY_F_BETA = "entity-fbeta"
    TOKEN_F1 = "token-f1"
    HAMMING = "hamming"


class TagDecoderName(str, Enum):
    """Decoders by name."""

    VITERBI = "viterbi"
    POSTERIOR = "posterior"


class CodingName(str, Enum):
    """Codings of entities by name."""

    AUTO = "auto"
    IO = "io"
    IOB1 = "iob1"
    IOB2 = "iob2"
    PLAIN = "plain"


class BlankTokensName(str, Enum):
    """What to do about tokens without a visible character, by name."""

    REFUSE = "refuse"
    SKIP = "skip"
    KEEP = "keep"


_USERS = {  # of the options that are not for every learner
    "l2": ("likelihood", "erm"),
    "iterations": ("likelihood", "erm"),
    "epochs": ("perceptron", "svm", "samplerank"),
    "c": ("svm",),
    "loss": ("erm",),
    "beta": ("erm",),
}
_FILE = (
    "A column file (.gz may follow): CoNLL-2003, word TAB tag, word tag, UNER or a treebank (CoNLL-U); an empty line "
    "after each sentence."
)
_Blank = Annotated[
    BlankTokensName, typer.Option(help="Tokens that are empty or only white space: refuse the file, skip or keep them.")
]


@dataclass(frozen=True)
class TagFile:
    """What commands say of the tags in a file."""

    column: Annotated[
        str | None,
        typer.Option(
            metavar="upos|xpos|feats|N|NAME",
            help="The column of the tags, by number from 1 or, of a treebank, by name.",
            show_default="the last; of a treebank upos",
        ),
    ] = None
    coding: Annotated[
        CodingName, typer.Option(help="How the file's tags code entities; plain: tags are no entities.")
    ] = CodingName.AUTO
    strict: Annotated[bool, typer.Option("--strict", help="Refuse broken tags instead of repairing them.")] = False
    outside: Annotated[str, typer.Option(help="Types of entities to read as O, separated by commas.")] = ""
    blank_tokens: _Blank = BlankTokensName.REFUSE

    def read(self, path: Path, model: Tagger) -> TaggedText:
        """The words and tags of a file, and the columns that the model looks at."""
        from loopwise.cli.tables import named
        from loopwise.formats.columns import BlankTokens, read_tagged
        from loopwise.formats.iob import Coding

        return read_tagged(
            path,
            coding=None if self.coding is CodingName.AUTO else Coding(self.coding.value),
            repair=not self.strict,
            outside=named(self.outside, "--outside"),
            blank_tokens=BlankTokens(self.blank_tokens.value),
            column=self.column,
            extra=model.columns,
        )


@dataclass(frozen=True)
class TagFeatures:
    """What a tagger looks at; or one that was saved, to go on from."""

    templates: Annotated[
        str | None,
        typer.Option(
            help="Feature templates, such as 'w[0] suffix3[0] lower[-1]|lower[0] column2[0]', or a file of them."
        ),
    ] = None
    step_templates: Annotated[str, typer.Option(help="Templates for pairs of neighbouring tags.")] = ""
    minimum_count: Annotated[int, typer.Option(help="Leave out features that fewer tokens have.")] = 1
    hashing: Annotated[int | None, typer.Option(help="Hash features into so many rows.")] = None
    order: Annotated[int, typer.Option(min=1, max=2, help="2: tags depend on the two before (likelihood).")] = 1
    skip: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATES",
            help="Link words of a document, or sentence, that see the same: 'w[0]|is_title[0]', say (likelihood, erm).",
        ),
    ] = None
    neighbours: Annotated[
        int, typer.Option(min=0, help="How many equal words that follow --skip links a word to; 0: all.")
    ] = 1
    start: Annotated[Path | None, typer.Option(help="A saved tagger to go on from.")] = None

    @property
    def file(self) -> Path | None:
        """The file that ``--templates`` names, if it names one."""
        named = self.templates is not None and "[" not in self.templates and Path(self.templates).is_file()
        return Path(self.templates) if self.templates is not None and named else None

    def tagger(self) -> Tagger:
        """A tagger to be trained."""
        from loopwise.apps.chain import NAMES, Tagger
        from loopwise.formats.files import read_text

        links = self.links()
        if self.start is not None:
            if self != TagFeatures(start=self.start):
                raise ValueError(
                    "--start goes on with the features of the saved tagger; leave the options of features out"
                )
            return Tagger.load(self.start).set_params(warm_start=True)
        chosen = NAMES if self.templates is None else self.templates if self.file is None else read_text(self.file)
        return Tagger(
            chosen,
            self.step_templates,
            minimum_count=self.minimum_count,
            hashing=self.hashing,
            order=self.order,
            skip=links,
        )

    def links(self) -> Skip | None:
        """What ``--skip`` and ``--neighbours`` ask for."""
        from loopwise.apps.chain import Skip

        if self.skip is None:
            if self.neighbours != 1:
                raise ValueError("--neighbours is about the links of --skip; give both, or none")
            return None
        return Skip(self.skip, self.neighbours or None)


@dataclass(frozen=True)
class TagTraining:
    """How a tagger is trained, and how its tags are chosen."""

    learner: Annotated[TagLearnerName, typer.Option(help="How to train.")] = TagLearnerName.LIKELIHOOD
    l2: Annotated[float, typer.Option("--l2", help="L2 penalty of likelihood and erm.")] = 1.0
    iterations: Annotated[int | None, typer.Option(help="Of likelihood or erm.", show_default="200 or 50")] = None
    epochs: Annotated[int, typer.Option(help="Of perceptron, svm and samplerank.")] = 10
    c: Annotated[float, typer.Option("--c", help="The C of svm.")] = 0.1
    loss: Annotated[TagLossName, typer.Option(help="What erm trains for.")] = TagLossName.ENTITY_F1
    beta: Annotated[float, typer.Option(help="Of entity-fbeta: above 1, recall counts for more.")] = 2.0
    decoder: Annotated[TagDecoderName, typer.Option(help="How tags are chosen.")] = TagDecoderName.VITERBI

    def make_learner(self) -> ChainLearner:
        """The learner that the options describe."""
        from loopwise.apps import chain as app

        if self.learner is TagLearnerName.PERCEPTRON:
            return app.ChainPerceptron(self.epochs)
        if self.learner is TagLearnerName.SVM:
            return app.ChainSVM(self.c, self.epochs)
        if self.learner is TagLearnerName.SAMPLE_RANK:
            return app.ChainSampleRank(self.epochs)
        if self.learner is TagLearnerName.LIKELIHOOD:
            return app.ChainLikelihood(self.l2, 200 if self.iterations is None else self.iterations)
        losses: dict[TagLossName, app.SoftLoss] = {
            TagLossName.ENTITY_F1: app.EntityF1(),
            TagLossName.ENTITY_F_BETA: app.EntityFBeta(self.beta),
            TagLossName.TOKEN_F1: app.TokenF1(),
            TagLossName.HAMMING: app.TokenHamming(),
        }
        iterations = 50 if self.iterations is None else self.iterations
        return app.ChainERM(losses[self.loss], self.l2, iterations, begin=app.ChainLikelihood(self.l2))

    def make_decoder(self) -> ChainDecoder:
        """The decoder that the options describe."""
        from loopwise.apps.chain import Posterior, Viterbi

        return Viterbi() if self.decoder is TagDecoderName.VITERBI else Posterior()


@tagger.command("train")
@grouped
def train(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(metavar="TRAIN", help=_FILE)],
    *,
    dev: Annotated[
        Path | None, typer.Option(help="Development data: the best epoch is kept, and its score shown.")
    ] = None,
    features: TagFeatures,
    training: TagTraining,
    checkpoint: Checkpoint = None,
    file: TagFile,
    out: Annotated[
        Path | None, typer.Option(help="Where to save the tagger.", show_default=f"TRAIN with {SUFFIX}")
    ] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="For the order of sentences.")] = 0,
) -> None:
    """Train a tagger on a column file."""
    with one_line_each():
        refuse_idle(context, training.learner.value, _USERS)
        learner = training.make_learner()
        target = target_of(
            out,
            named_after(data),
            inputs=(data, dev, features.start, features.file),
            checkpoint=checkpoint,
        )
        model = features.tagger().set_params(learner=learner, decoder=training.make_decoder(), seed=seed)
        text, held_out = file.read(data, model), None if dev is None else file.read(dev, model)
        model.fit(text, dev=held_out, checkpoint=checkpoint)
        model.save(target)
        scores = {} if held_out is None else {"dev": model.evaluate(held_out).to_json()}
        _tell_training(as_json, model, text, target, scores)


@tagger.command("predict")
@grouped
def predict(
    model: Annotated[Path, typer.Argument(help="A file that loopwise tagger train saved.")],
    data: Annotated[Path, typer.Argument(help=_FILE + " Tags are not looked at.")],
    *,
    blank_tokens: _Blank = BlankTokensName.REFUSE,
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    several: SeveralAnswers,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, with entities and the probability of tags.")] = False,
) -> None:
    """Tag the words of a column file: word TAB tag lines. With --k or --samples, a column of tags for each
    answer, under a line of their probabilities."""
    with one_line_each():
        from loopwise.apps.chain import Tagger
        from loopwise.formats.columns import BlankTokens, read_words, write_tagged
        from loopwise.formats.files import atomic_write

        several.check()
        target = target_of(out, inputs=(model, data))
        blank = BlankTokens(blank_tokens.value)
        trained = Tagger.load(model)
        text = read_words(data, blank_tokens=blank, extra=trained.columns)
        if several.wanted:
            if several.k is not None:
                answers = trained.predict(text, k=several.k)
            else:
                answers = trained.sample(text, several.seed, count=several.samples)
            with atomic_write(target) as stream:
                stream.write(_several_json(text, answers) if as_json else _several_lines(text, answers))
            return
        if not as_json:
            write_tagged(target, text.sentences(), trained.predict(text), blank_tokens=blank)
            return
        with atomic_write(target) as stream:
            stream.write(json.dumps(_answers(trained, text), allow_nan=False) + "\n")


@tagger.command("evaluate")
@grouped
def evaluate(
    model: Annotated[Path, typer.Argument(help="A file that loopwise tagger train saved.")],
    data: Annotated[Path, typer.Argument(help=_FILE)],
    file: TagFile,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; evaluation draws nothing.")] = 0,
) -> None:
    """Precision, recall and F1 of entities, and the share of right tags."""
    with one_line_each():
        from loopwise.apps.chain import Tagger

        trained = Tagger.load(model)
        report = trained.evaluate(file.read(data, trained))
        if as_json:
            typer.echo(json.dumps(report.to_json(), allow_nan=False))
        else:
            _tell_report(report)


def _several_json(text: TaggedText, several: list[list[RankedAnswer]]) -> str:
    sentences = [
        {"words": words, "taggings": [{"tags": tags, "probability": share} for tags, share in found]}
        for words, found in zip(text.sentences(), several, strict=True)
    ]
    return json.dumps({"sentences": sentences}, allow_nan=False) + "\n"


def _several_lines(text: TaggedText, several: list[list[RankedAnswer]]) -> str:
    """A column for each tagging, under a comment with their probabilities."""
    lines: list[str] = []
    for words, found in zip(text.sentences(), several, strict=True):
        lines.append("# probabilities = " + " ".join(f"{share:.6g}" for _, share in found))
        lines += ["\t".join(row) for row in zip(words, *(tags for tags, _ in found), strict=True)]
        lines.append("")
    return "\n".join(lines) + "\n"


def _answers(model: Tagger, text: TaggedText) -> dict[str, Any]:
    from loopwise.formats.iob import TagError

    tags, (marginals, status) = model.predict(text), model.predict_marginals(text, status=True)
    try:
        entities: list[Any] = model.entities(text)
    except TagError:
        entities = [None] * len(text)
    sentences = []
    for words, said, shares, found in zip(text.sentences(), tags, marginals, entities, strict=True):
        sentence: dict[str, Any] = {"words": words, "tags": said, "probabilities": shares.round(6).tolist()}
        if found is not None:
            sentence["entities"] = [{"start": begin, "end": end, "type": name} for begin, end, name in found]
        sentences.append(sentence)
    return {
        "labels": list(model.labels_),
        "exact": status.exact,
        "converged": status.converged,
        "sentences": sentences,
    }


def _tell_training(as_json: bool, model: Tagger, text: TaggedText, target: Path, scores: dict[str, Any]) -> None:
    history = model.history_
    sizes = {
        "sentences": len(text),
        "tokens": len(text.words),
        "tags": len(model.labels_),
        "features": model.unary_index_.size,
        "weights": len(model.weights_.vector),
    }
    if as_json:
        typer.echo(
            json.dumps({"tagger": str(target), **sizes, **scores, "history": history.to_json()}, allow_nan=False)
        )
        return
    typer.echo(", ".join(f"{name} {count}" for name, count in sizes.items()))
    if len(history):
        typer.echo(
            f"loss {history.losses[0]:.4g} in the first round, {history.losses[-1]:.4g} in the last of {len(history)} "
            f"({history.seconds:.1f} s)"
        )
    else:
        typer.echo(f"nothing to learn: the weights fit as they were ({history.ended or 'no round was needed'})")
    for name, score in scores.items():
        best = "" if history.best is None else f", best epoch {history.best}"
        typer.echo(f"{name}: accuracy {score['accuracy']:.4f}{_entity_words(score)}{best}")
    typer.echo(f"saved {target}")


def _entity_words(score: dict[str, Any]) -> str:
    found = score["entities"]
    return "" if found is None else f", entity F1 {found['f1']:.4f}"


def _tell_report(report: TaggingReport) -> None:
    typer.echo(f"sentences {report.sentences}, tokens {report.tokens}, accuracy {report.accuracy:.4f}")
    if report.entities is None:
        return
    typer.echo(f"{'':20} precision  recall      F1    gold")
    for name, counts in [*report.types.items(), ("all", report.entities)]:
        typer.echo(f"{name:20} {counts.precision:9.4f} {counts.recall:7.4f} {counts.f1:7.4f} {counts.gold:7d}")
