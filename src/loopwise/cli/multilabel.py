"""``loopwise multilabel train | predict | evaluate``: sets of labels, from ARFF files.

Reports go to standard output, the model to a file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import AsJson, Checkpoint, grouped, refuse_idle
from loopwise.cli.messages import one_line_each
from loopwise.cli.targets import MOST_ITERATIONS, SUFFIX, named_after, target_of

if TYPE_CHECKING:
    from loopwise.apps.multilabel import LabelDecoder, LabelLearner, LabelledData, MultiLabel, MultiLabelReport
    from loopwise.apps.multilabel.data import LabelledColumns

_COLUMNS = "columns"  # what a saved model notes of the file it was trained on

multilabel = typer.Typer(
    help="Sets of labels for inputs (fully connected pairwise MRF).", no_args_is_help=True, add_completion=False
)


class LabelLearnerName(str, Enum):
    """Learners by name."""

    SAMPLERANK = "samplerank"
    SVM = "samplerank-svm"
    SVM_1 = "samplerank-svm-1"
    HYBRID = "hybrid"
    CD = "cd"
    PCD = "pcd"
    PERCEPTRON = "perceptron"
    PEGASOS = "pegasos"
    LIKELIHOOD = "likelihood"
    ERM = "erm"


class ProposalName(str, Enum):
    """Proposals by name."""

    GIBBS = "gibbs"
    ALL_VALUES = "all-values"
    FORCED_FLIP = "forced-flip"


class LabelLossName(str, Enum):
    """What ERM trains for, by name."""

    HAMMING = "hamming"
    F1 = "f1"


class LabelDecoderName(str, Enum):
    """Decoders by name."""

    AUTO = "auto"
    ENUMERATION = "enumeration"
    ANNEALED = "annealed"
    BP = "bp"


_RANKED = ("samplerank", "samplerank-svm", "samplerank-svm-1", "hybrid")
_USERS = {  # of the options that are not for every learner
    "sweeps": (*_RANKED, "cd", "pcd"),
    "proposal": (*_RANKED, "cd", "pcd"),
    "cap": _RANKED,
    "rate": ("cd", "pcd"),
    "strength": ("pegasos",),
    "l2": ("likelihood", "erm"),
    "loss": ("erm",),
}
_FILE = "An ARFF file, dense or sparse (.gz may follow)."


@dataclass(frozen=True)
class LabelTraining:
    """How a model is trained, and how its label sets are chosen."""

    learner: Annotated[LabelLearnerName, typer.Option(help="How to train.")] = LabelLearnerName.SAMPLERANK
    epochs: Annotated[
        int | None,
        typer.Option(help="Passes over the examples; iterations of likelihood and erm.", show_default="10, 100"),
    ] = None
    sweeps: Annotated[int, typer.Option(help="Of a walk over the labels of an example.")] = 50
    proposal: Annotated[ProposalName, typer.Option(help="How walks go on.")] = ProposalName.GIBBS
    cap: Annotated[
        float | None,
        typer.Option(help="The largest MIRA step; small ones regularise.", show_default="by the length of inputs"),
    ] = None
    rate: Annotated[float, typer.Option(help="The first step of cd and pcd, which decay.")] = 0.01
    strength: Annotated[float, typer.Option(help="The penalty lambda of pegasos.")] = 0.1
    l2: Annotated[float, typer.Option("--l2", help="L2 penalty of likelihood and erm.")] = 10.0
    iterations: Annotated[int, typer.Option(help="BP sweeps of likelihood and erm.", max=MOST_ITERATIONS)] = 10
    loss: Annotated[LabelLossName, typer.Option(help="What erm trains for.")] = LabelLossName.HAMMING
    decoder: Annotated[LabelDecoderName, typer.Option(help="How label sets are chosen.")] = LabelDecoderName.AUTO

    def make_learner(self) -> LabelLearner:
        """The learner that the options describe."""
        from loopwise import walk
        from loopwise.apps import multilabel as app
        from loopwise.inference.messages.message_passing import BP
        from loopwise.loss import F1, Hamming

        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"--epochs must be at least 1, not {self.epochs}")
        is_batch = self.learner in (LabelLearnerName.LIKELIHOOD, LabelLearnerName.ERM)
        rounds = self.epochs if self.epochs is not None else 100 if is_batch else 10
        if self.learner is LabelLearnerName.PERCEPTRON:
            return app.LabelPerceptron(rounds)
        if self.learner is LabelLearnerName.PEGASOS:
            return app.LabelPegasos(self.strength, rounds)
        if is_batch:
            inference = BP(iterations=self.iterations)
            likelihood = app.LabelLikelihood(self.l2, rounds, inference)
            if self.learner is LabelLearnerName.LIKELIHOOD:
                return likelihood
            goal = Hamming() if self.loss is LabelLossName.HAMMING else F1()
            return app.LabelERM(goal, self.l2, rounds, inference, begin=likelihood)
        proposals = {
            ProposalName.GIBBS: walk.GibbsChange(),
            ProposalName.ALL_VALUES: walk.AllValues(),
            ProposalName.FORCED_FLIP: walk.ForcedFlip(),
        }
        shared: dict[str, Any] = {"epochs": rounds, "sweeps": self.sweeps, "proposal": proposals[self.proposal]}
        if self.learner in (LabelLearnerName.CD, LabelLearnerName.PCD):
            kind = app.LabelCD if self.learner is LabelLearnerName.CD else app.LabelPCD
            return kind(step=walk.Decaying(self.rate), **shared)
        walks = {
            LabelLearnerName.SAMPLERANK: app.LabelSampleRank,
            LabelLearnerName.SVM: app.LabelSampleRankSVM,
            LabelLearnerName.SVM_1: app.LabelSampleRankSVM1,
            LabelLearnerName.HYBRID: app.LabelHybrid,
        }
        made: LabelLearner = walks[self.learner](step=None if self.cap is None else walk.MIRA(self.cap), **shared)
        return made

    def make_decoder(self) -> LabelDecoder | None:
        """The decoder that the options describe; None: what suits the learner."""
        from loopwise.apps import multilabel as app
        from loopwise.inference.messages.message_passing import BP

        known = {
            LabelDecoderName.AUTO: None,
            LabelDecoderName.ENUMERATION: app.Enumeration(),
            LabelDecoderName.ANNEALED: app.Annealed(),
            LabelDecoderName.BP: app.ByBeliefs(BP(iterations=self.iterations)),
        }
        return known[self.decoder]


@multilabel.command("train")
@grouped
def train(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(metavar="TRAIN", help=_FILE)],
    *,
    labels: Annotated[
        Path | None,
        typer.Option(help="Mulan's XML list of labels.", show_default="-C in the relation's name, as MEKA writes it"),
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Development data: the best epoch is kept.")] = None,
    training: LabelTraining,
    checkpoint: Checkpoint = None,
    standardize: Annotated[bool, typer.Option(help="Bring dense features to mean 0 and variance 1.")] = True,
    out: Annotated[
        Path | None, typer.Option(help="Where to save the model.", show_default=f"TRAIN with {SUFFIX}")
    ] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="For the order of examples and for walks.")] = 0,
) -> None:
    """Train on an ARFF file whose labels are 0 or 1."""
    with one_line_each():
        from loopwise.apps.multilabel import MultiLabel, read_labelled
        from loopwise.apps.multilabel.data import read_for

        refuse_idle(context, training.learner.value, _USERS)
        learner = training.make_learner()
        target = target_of(
            out,
            named_after(data),
            inputs=(data, labels, dev),
            checkpoint=checkpoint,
        )
        examples = read_labelled(data, labels)
        held = None if dev is None else read_for(dev, examples.columns, wants_labels=True)
        model = MultiLabel(learner, training.make_decoder(), standardize, seed=seed)
        known = None if held is None else (held.inputs, held.labels)
        model.fit(examples.inputs, examples.labels, dev=known, checkpoint=checkpoint)
        model.label_names_ = examples.columns.labels
        model.save(target, {_COLUMNS: examples.columns.to_json()})
        reports = {} if held is None else {"dev": model.evaluate(held.inputs, held.labels)}
        _tell_training(as_json, model, examples, target, reports)


@multilabel.command("predict")
def predict(
    model: Annotated[Path, typer.Argument(help="A file that loopwise multilabel train saved.")],
    data: Annotated[Path, typer.Argument(help=_FILE + " Labels are not looked at, and may be absent.")],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The probability of each label instead of 0 and 1.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON: names of the labels of each example, probabilities.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; prediction draws nothing.")] = 0,
) -> None:
    """Write the labels of each example: CSV, a column a label."""
    with one_line_each():
        from loopwise.apps.multilabel.data import read_for
        from loopwise.formats.files import atomic_write
        from loopwise.formats.table import csv_line

        target = target_of(out, inputs=(model, data))
        trained, columns = _load(model)
        examples = read_for(data, columns, wants_labels=False)
        shares = trained.predict_marginals(examples.inputs) if probabilities or as_json else None
        said = None if probabilities else trained.predict(examples.inputs)
        with atomic_write(target) as stream:
            if as_json:
                stream.write(json.dumps(_answers(trained, said, shares), allow_nan=False) + "\n")
                return
            stream.write(csv_line(trained.label_names_))
            rows = said.tolist() if said is not None else [[f"{share:.6f}" for share in row] for row in shares]  # type: ignore[union-attr]
            stream.writelines(csv_line(row) for row in rows)


@multilabel.command("evaluate")
def evaluate(
    model: Annotated[Path, typer.Argument(help="A file that loopwise multilabel train saved.")],
    data: Annotated[Path, typer.Argument(help=_FILE)],
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; evaluation draws nothing.")] = 0,
) -> None:
    """Hamming and subset error, F1 of examples, labels and all."""
    with one_line_each():
        from loopwise.apps.multilabel.data import read_for

        trained, columns = _load(model)
        examples = read_for(data, columns, wants_labels=True)
        report = trained.evaluate(examples.inputs, examples.labels)
        if as_json:
            typer.echo(json.dumps(report.to_json(), allow_nan=False))
            return
        _tell_report(report)
        typer.echo(f"{'':24} error      F1    gold")
        for name, entry in report.labels.items():
            typer.echo(f"{name:24} {entry['error']:.4f} {entry['f1']:7.4f} {entry['gold']:7.0f}")


def _load(path: Path) -> tuple[MultiLabel, LabelledColumns]:
    from loopwise.apps.multilabel import MultiLabel
    from loopwise.apps.multilabel.data import LabelledColumns

    model, notes = MultiLabel.load_with_notes(path)
    if _COLUMNS not in notes:
        raise ValueError(
            f"{path}: the model was trained on arrays, so it does not know the attributes of a file; "
            "use it in Python, or train on a file"
        )
    return model, LabelledColumns.from_json(notes[_COLUMNS])


def _answers(model: MultiLabel, said: Any, shares: Any) -> dict[str, Any]:
    names = model.label_names_
    examples = []
    for place, row in enumerate(shares):
        example: dict[str, Any] = {"probabilities": [round(share, 6) for share in row.tolist()]}
        if said is not None:
            example["labels"] = [name for name, on in zip(names, said[place].tolist(), strict=True) if on]
        examples.append(example)
    return {"labels": list(names), "examples": examples}


def _tell_training(
    as_json: bool, model: MultiLabel, data: LabelledData, target: Path, reports: dict[str, MultiLabelReport]
) -> None:
    history = model.history_
    sizes = {
        "examples": len(data),
        "features": model.n_features_in_,
        "labels": len(model.label_names_),
        "weights": len(model.weights_.vector),
    }
    if as_json:
        found = {name: report.to_json() for name, report in reports.items()}
        typer.echo(json.dumps({"model": str(target), **sizes, **found, "history": history.to_json()}, allow_nan=False))
        return
    typer.echo(", ".join(f"{name} {count}" for name, count in sizes.items()))
    typer.echo(
        f"loss {history.losses[0]:.4g} in the first round, {history.losses[-1]:.4g} in the last of {len(history)} "
        f"({history.seconds:.1f} s)"
    )
    for name, report in reports.items():
        best = "" if history.best is None else f" (best round {history.best})"
        typer.echo(f"{name}{best}: Hamming error {report.hamming:.4f}, micro F1 {report.micro_f1:.4f}")
    typer.echo(f"saved {target}")


def _tell_report(report: MultiLabelReport) -> None:
    typer.echo(
        f"examples {report.examples}, Hamming error {report.hamming:.4f}, subset error {report.subset:.4f}, F1 of "
        f"examples {report.examples_f1:.4f}, micro F1 {report.micro_f1:.4f}, macro F1 {report.macro_f1:.4f}"
    )
