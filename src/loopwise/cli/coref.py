"""``loopwise coref train | predict | evaluate``: which mentions speak of the same entity, from files to files.

Reports go to standard output, the model to a file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import AsJson, Checkpoint, grouped
from loopwise.cli.messages import one_line_each, say
from loopwise.cli.targets import SUFFIX, check_outputs, named_after, target_of

if TYPE_CHECKING:
    from loopwise.apps.coref import Coref, CorefReport, Variant
    from loopwise.formats.coref import CorefDocument


coref = typer.Typer(
    help="Coreference: which mentions of a text speak of the same thing.", no_args_is_help=True, add_completion=False
)


class CorefLearnerName(str, Enum):
    """Ways to train, by name."""

    MIRA = "samplerank-mira"
    SAMPLE_RANK = "samplerank"
    SVM_1 = "svm-1"
    CD_1 = "cd-1"
    SVM = "svm"
    PCD = "pcd"


_FILE = (
    "Documents with mentions (.gz may follow): CoNLL-U with Entity= in the last column (GUM, CorefUD), or CoNLL-2012 "
    "columns (12 and more, or number, word, brackets)."
)
_SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Pass over brackets that have no partner, and read the rest of the file.")
]


@dataclass(frozen=True)
class CorefOptions:
    """What a new model looks at, and how it is trained."""

    learner: Annotated[CorefLearnerName, typer.Option(help="How to train.")] = CorefLearnerName.MIRA
    rounds: Annotated[int, typer.Option(help="Walks over each document.")] = 8
    steps: Annotated[int, typer.Option(help="Steps of each walk.")] = 8000
    decode_steps: Annotated[
        int | None, typer.Option(help="Steps of the search for the best entities.", show_default="300 a mention")
    ] = None
    pairs_only: Annotated[bool, typer.Option("--pairs-only", help="No features of whole entities.")] = False
    no_types: Annotated[
        bool, typer.Option("--no-types", help="Do not look at the types of entities that files give.")
    ] = False
    no_bare: Annotated[
        bool, typer.Option("--no-bare", help="No second training for documents that come without trees.")
    ] = False
    jobs: Annotated[
        int, typer.Option(help="Parts of the documents that learn at the same time, mixed after each round.")
    ] = 1

    def model(self, seed: int) -> Coref:
        """A model to be trained."""
        from loopwise.apps.coref import Coref
        from loopwise.walk import Sweeps

        if self.jobs < 1:
            raise ValueError(f"--jobs must be at least 1, not {self.jobs}")
        return Coref(
            _way(self.learner),
            rounds=self.rounds,
            steps=self.steps,
            decode_steps=Sweeps(300) if self.decode_steps is None else self.decode_steps,
            setwise=not self.pairs_only,
            types=not self.no_types,
            bare=not self.no_bare,
            shards=self.jobs,
            jobs=self.jobs,
            seed=seed,
        )


@coref.command("train")
@grouped
def train(
    data: Annotated[Path, typer.Argument(metavar="TRAIN", help=_FILE)],
    *,
    dev: Annotated[Path | None, typer.Option(help="Development data, to be scored after training.")] = None,
    training: CorefOptions,
    checkpoint: Checkpoint = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to save the model.", show_default=f"TRAIN with {SUFFIX}")
    ] = None,
    as_json: AsJson = False,
    skip_bad: _SkipBad = False,
    seed: Annotated[int, typer.Option(help="For the walks.")] = 0,
) -> None:
    """Train on documents whose entities are known."""
    with one_line_each():
        from loopwise.formats.coref import read_coref

        model = training.model(seed)
        target = target_of(out, named_after(data), inputs=(data, dev), checkpoint=checkpoint)
        if checkpoint is not None and model.bare:
            check_outputs({"--checkpoint": Path(f"{checkpoint}-bare")}, (data, dev, target))
        documents = read_coref(data, skip_bad=skip_bad)
        held_out = None if dev is None else read_coref(dev, skip_bad=skip_bad)
        model.fit(documents, checkpoint=checkpoint)
        model.save(target)
        report = None if held_out is None else model.evaluate(held_out)
        _tell_training(as_json, model, target, report)


@coref.command("predict")
def predict(
    model: Annotated[Path, typer.Argument(help="A file that loopwise coref train saved.")],
    data: Annotated[Path, typer.Argument(help=_FILE + " Entities are not looked at.")],
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON: the entities of each document.")] = False,
    skip_bad: _SkipBad = False,
    seed: Annotated[int | None, typer.Option(help="For the search.", show_default="as trained")] = None,
) -> None:
    """Write the file again with the entities found; all else stays as it is."""
    with one_line_each():
        from loopwise.formats.coref import read_coref, write_entities
        from loopwise.formats.files import atomic_write

        target = target_of(out, inputs=(model, data))
        trained, documents = _load(model, seed), read_coref(data, skip_bad=skip_bad)
        if not any(document.mentions for document in documents):
            say(f"warning: {data} marks no mention (Entity= in the last column), and mentions are not looked for")
        answers = [answer.tolist() for answer in trained.predict(documents)]
        if not as_json:
            write_entities(target, documents, answers)
            return
        with atomic_write(target) as stream:
            stream.write(json.dumps({"documents": _entities(documents, answers)}, allow_nan=False) + "\n")


@coref.command("evaluate")
def evaluate(
    model: Annotated[Path, typer.Argument(help="A file that loopwise coref train saved.")],
    data: Annotated[Path, typer.Argument(help=_FILE)],
    as_json: AsJson = False,
    skip_bad: _SkipBad = False,
    seed: Annotated[int | None, typer.Option(help="For the search.", show_default="as trained")] = None,
) -> None:
    """B-cubed and pairwise scores, beside three answers that need no training."""
    with one_line_each():
        from loopwise.apps.coref import CorefReport, by_rule, head_match, singletons
        from loopwise.formats.coref import read_coref

        trained, documents = _load(model, seed), read_coref(data, skip_bad=skip_bad)
        simple = {"rule": by_rule, "head match": head_match, "all alone": singletons}
        reports = {"model": trained.evaluate(documents)}
        for name, answer in simple.items():
            reports[name] = CorefReport.of(documents, [answer(document) for document in documents])
        if as_json:
            typer.echo(json.dumps({name: report.to_json() for name, report in reports.items()}, allow_nan=False))
        else:
            _tell_reports(reports)


def _way(name: CorefLearnerName) -> Variant:
    from loopwise.apps.coref import default_variant, published_variants

    if name is CorefLearnerName.MIRA:
        return default_variant()
    return dict(zip(CorefLearnerName, published_variants(), strict=True))[name]


def _load(path: Path, seed: int | None) -> Coref:
    from loopwise.apps.coref import Coref

    model = Coref.load(path)
    if seed is not None:
        model.seed = seed
    return model


def _entities(documents: Sequence[CorefDocument], answers: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Of each document its entities: the mentions of each, with their words."""
    found = []
    for document, answer in zip(documents, answers, strict=True):
        entities: dict[int, list[dict[str, Any]]] = {}
        for mention, entity in zip(document.mentions, answer, strict=True):
            words = {"first": mention.first, "last": mention.last, "text": document.text(mention)}
            entities.setdefault(entity, []).append(words)
        found.append({"name": document.name, "entities": list(entities.values())})
    return found


def _tell_training(as_json: bool, model: Coref, target: Path, report: CorefReport | None) -> None:
    run = model.training_
    if as_json:
        told: dict[str, Any] = {
            "coref": str(target),
            "learner": run.way,
            "documents": run.documents,
            "mentions": run.mentions,
            "weights": len(model.weights_),
            "steps": run.tally.steps,
            "updates": run.tally.updates,
            "active_per_update": round(run.tally.active_per_update, 2),
            "violated_share": round(run.tally.violated_share, 6),
            "seconds": round(run.seconds, 3),
        }
        if report is not None:
            told["dev"] = report.to_json()
        typer.echo(json.dumps(told, allow_nan=False))
        return
    typer.echo(
        f"{run.way}: documents {run.documents}, mentions {run.mentions}, weights {len(model.weights_)}, "
        f"steps {run.tally.steps} ({run.seconds:.1f} s), updates {run.tally.updates} of "
        f"{run.tally.active_per_update:.0f} features each"
    )
    if report is not None:
        typer.echo(f"dev: B-cubed F1 {report.mean.b_cubed:.4f}, pairwise F1 {report.mean.pairwise_f1:.4f}")
    typer.echo(f"saved {target}")


def _tell_reports(reports: dict[str, CorefReport]) -> None:
    first = reports["model"]
    typer.echo(f"documents {len(first.documents)}, mentions {first.mentions}; means over documents")
    typer.echo(f"{'':12} B-cubed precision  recall      F1  pairwise F1  accuracy  CoNLL pooled")
    for name, report in reports.items():
        mean = report.mean
        typer.echo(
            f"{name:12} {mean.precision:17.4f} {mean.recall:7.4f} {mean.b_cubed:7.4f} {mean.pairwise_f1:12.4f} "
            f"{mean.pairwise_accuracy:9.4f} {report.reference['conll']:13.4f}"
        )
