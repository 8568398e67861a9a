"""``loopwise dedupe train | predict | evaluate | label``: records that mean the same thing, from files to files.

Reports go to standard output, models and tables to files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import AsJson, grouped
from loopwise.cli.messages import one_line_each, say
from loopwise.cli.targets import SUFFIX, check_outputs, named_after, target_of

if TYPE_CHECKING:
    from loopwise.apps.dedupe import Dedupe, DedupeReport, Records


dedupe = typer.Typer(
    help="Duplicates: which records of a table, or of two, mean the same thing.",
    no_args_is_help=True,
    add_completion=False,
)

_FILE = "Records as CSV (.gz may follow); the first line names the columns."
_Other = Annotated[Path | None, typer.Option(help="A second table: links between the two are sought.")]
_Id = Annotated[
    str | None,
    typer.Option("--id", help="The column that names records in labels and links.", show_default="row numbers"),
]


@dataclass(frozen=True)
class DedupeOptions:
    """What a new model is."""

    kind: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=KIND, for columns that are guessed wrongly: name, text, number, date, ..., ignore."),
    ] = None
    id_column: _Id = None
    pairs_per_record: Annotated[int, typer.Option(help="Candidate pairs that blocking may make for each record.")] = 20
    method: Annotated[
        str | None,
        typer.Option(
            help="How clusters are made: average, connected, walk, entities (with --ids) or one-to-one (two tables).",
            show_default="with --ids the best on held-out entities",
        ),
    ] = None

    def model(self, seed: int) -> Dedupe:
        """A model to be trained."""
        from loopwise.apps.dedupe import Dedupe

        return Dedupe(
            _kinds(self.kind or []),
            id_column=self.id_column,
            pairs_per_record=self.pairs_per_record,
            method=self.method,
            seed=seed,
        )


@dedupe.command("train")
@grouped
def train(
    data: Annotated[Path, typer.Argument(metavar="TABLE", help=_FILE)],
    *,
    other: _Other = None,
    ids: Annotated[
        str | None, typer.Option(help="The column with the true entity of each record; empty where unknown.")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(help="Labelled pairs: CSV of two ids and match, distinct or unsure; or JSON as dedupe writes it."),
    ] = None,
    options: DedupeOptions,
    out: Annotated[
        Path | None, typer.Option(help="Where to save the model.", show_default=f"TABLE with {SUFFIX}")
    ] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="For samples and walks.")] = 0,
) -> None:
    """Train on a table with labels, or without any."""
    with one_line_each():
        default = named_after(data)
        target = target_of(out, default, inputs=(data, other, pairs))
        model = options.model(seed)
        model.fit(data, other=other, ids=ids, pairs=pairs)
        model.save(target)
        _tell_training(as_json, model, target, pairs is not None)


@dedupe.command("predict")
def predict(
    model: Annotated[Path, typer.Argument(help="A file that loopwise dedupe train saved.")],
    data: Annotated[Path, typer.Argument(metavar="TABLE", help=_FILE)],
    other: _Other = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The table with cluster_id and confidences; between two tables their rows one after another.",
            show_default="standard output",
        ),
    ] = None,
    links: Annotated[Path | None, typer.Option(help="Pairs in one cluster: two ids, probability.")] = None,
    canonical: Annotated[Path | None, typer.Option(help="One record for each cluster.")] = None,
    report: Annotated[Path | None, typer.Option(help="An HTML page of the most doubtful clusters.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A summary as JSON instead of the table, without --out.")
    ] = False,
) -> None:
    """Write which records belong together, and how sure that is."""
    with one_line_each():
        from loopwise.apps.dedupe import Dedupe
        from loopwise.apps.dedupe.page import write_page

        inputs = (model, data, other)
        check_outputs({"--out": out, "--links": links, "--canonical": canonical, "--report": report}, inputs)
        found = Dedupe.load(model).predict(data, other=other)
        if out is not None or not as_json:
            found.write(Path("-") if out is None else out)
        if links is not None:
            found.write_links(links)
        if canonical is not None:
            found.write_canonical(canonical)
        if report is not None:
            write_page(found, report)
        told = found.to_json()
        if as_json:
            typer.echo(json.dumps(told, allow_nan=False))
        elif out is not None:
            typer.echo(
                f"records {told['records']}, clusters {told['clusters']}, duplicates {told['duplicates']}, "
                f"pairs compared {told['pairs_compared']}"
            )
            for each in found.largest(3):
                typer.echo(
                    f"cluster {each.cluster}: {each.size} records, confidence {each.mean:.3f}, lowest {each.lowest:.3f}"
                )


@dedupe.command("evaluate")
def evaluate(
    model: Annotated[Path, typer.Argument(help="A file that loopwise dedupe train saved.")],
    data: Annotated[Path, typer.Argument(metavar="TABLE", help=_FILE)],
    ids: Annotated[str, typer.Option(help="The column with the true entity of each record.")],
    other: _Other = None,
    as_json: AsJson = False,
) -> None:
    """Pairwise, B-cubed and cluster scores against true entities."""
    with one_line_each():
        from loopwise.apps.dedupe import Dedupe

        found = Dedupe.load(model).evaluate(data, ids, other=other)
        typer.echo(json.dumps(found.to_json(), allow_nan=False) if as_json else _lines(found))


@dedupe.command("label")
def label(
    data: Annotated[Path, typer.Argument(metavar="TABLE", help=_FILE)],
    out: Annotated[Path, typer.Option(help="Where to write the labelled pairs (CSV), for train --pairs.")],
    other: _Other = None,
    model: Annotated[Path | None, typer.Option(help="A trained model to ask for; else one without labels.")] = None,
    count: Annotated[int, typer.Option(help="How many pairs to ask for.")] = 20,
    answers: Annotated[
        Path | None, typer.Option(help="Answers, one a line, instead of asking: match, distinct, unsure, or stop.")
    ] = None,
    kind: Annotated[list[str] | None, typer.Option(help="COLUMN=KIND, for columns that are guessed wrongly.")] = None,
    id_column: _Id = None,
    seed: Annotated[int, typer.Option(help="For the choice of pairs.")] = 0,
) -> None:
    """Ask for the pairs whose labels teach most."""
    with one_line_each():
        from loopwise.apps.dedupe import Dedupe, Records
        from loopwise.apps.dedupe.labels import names_of
        from loopwise.apps.dedupe.records import side_of
        from loopwise.formats.files import atomic_write
        from loopwise.formats.table import csv_line

        if count < 1:
            raise ValueError(f"--count must be at least 1, not {count}")
        if model is not None and (kind or id_column or seed):
            raise ValueError("--kind, --id and --seed are those of the --model; leave them out beside it")
        target = target_of(out, inputs=(data, other, model, answers))
        said = _answers(answers) if answers is not None else None
        first, second = Records.of(data), None if other is None else Records.of(other)
        asker = Dedupe(_kinds(kind or []), id_column=id_column, seed=seed) if model is None else Dedupe.load(model)
        pairs = asker.teaching_pairs(first, count, other=second)
        table = first if second is None else first.joined(second)
        names = names_of(table, asker.id_column, side_of(first, second))
        rows = _asked(table, pairs.tolist(), said)
        with atomic_write(target) as stream:
            stream.write(csv_line(["id_1", "id_2", "label"]))
            stream.writelines(csv_line([names[one], names[two], answer]) for one, two, answer in rows)
        typer.echo(f"pairs labelled {len(rows)}, saved {target}", err=str(target) == "-")


def _answers(path: Path) -> list[str]:
    from loopwise.apps.dedupe.labels import answer_of
    from loopwise.formats.errors import FormatError
    from loopwise.formats.files import display_name, read_text

    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        word = line.strip()
        if word and word.lower() != "stop" and answer_of(word) is None:
            raise FormatError(
                display_name(path), number, f"{word[:40]!r} is no answer; say match, distinct, unsure or stop"
            )
        if word:
            found.append(word)
    return found


def _asked(table: Records, pairs: Sequence[Sequence[int]], said: list[str] | None) -> list[tuple[int, int, str]]:
    """Pairs with their answers, until there is no more answer or one says stop."""
    from loopwise.apps.dedupe.labels import answer_of

    rows: list[tuple[int, int, str]] = []
    for number, (one, two) in enumerate(pairs):
        if said is None:
            _show(table, one, two, f"{number + 1} of {len(pairs)}")
        if said is not None:
            word = said[number] if number < len(said) else "stop"
        else:
            word = _ask(rows)
        if word.lower() == "stop":
            break
        answer = answer_of(word)
        assert answer is not None
        rows.append((one, two, answer.value))
    return rows


def _ask(rows: Sequence[object]) -> str:
    """An answer; where people go away instead (ctrl-D, ctrl-C) "stop", so that answers before are not lost."""
    from loopwise.apps.dedupe.labels import answer_of

    while True:
        try:
            word: str = typer.prompt("same? (y)es, (n)o, (u)nsure, stop", err=True).strip()
        except typer.Abort:
            if not rows:
                raise
            say("")
            return "stop"
        if word.lower() == "stop" or (word and answer_of(word) is not None):
            return word
        say("say y, n, u or stop")


def _show(table: Records, one: int, two: int, where: str) -> None:
    typer.echo(f"\n{where}", err=True)
    mine, theirs = table.row(one), table.row(two)
    for name in table.names:
        if mine[name] or theirs[name]:
            typer.echo(f"  {name}: {mine[name]}\n  {' ' * len(name)}  {theirs[name]}", err=True)


def _kinds(told: Sequence[str]) -> dict[str, str]:
    found = {}
    for each in told:
        name, mark, kind = each.rpartition("=")
        if not mark or not name:
            raise ValueError(f"--kind {each[:40]!r} must be COLUMN=KIND, such as title=text")
        found[name] = kind
    return found


def _tell_training(as_json: bool, model: Dedupe, target: Path, pairs: bool) -> None:
    run = model.training_
    told: dict[str, Any] = {
        "dedupe": str(target),
        "records": run.records,
        "labelled": run.labelled,
        "kinds": {name: kind.value for name, kind in model.kinds_.items()},
        "blocking": run.blocking.to_json(),
        "method": model.trained_.method.value,
        "threshold": model.trained_.way.threshold,
        "pull": run.pull,
        "held_out": {name: round(value, 6) for name, value in run.choices.items()},
        "seconds": round(run.seconds, 3),
    }
    if as_json:
        typer.echo(json.dumps(told, allow_nan=False))
        return
    typer.echo("kinds: " + ", ".join(f"{name} {kind}" for name, kind in told["kinds"].items()))
    recall = (
        ""
        if run.blocking.recall is None
        else f", recall of {run.blocking.matches} labelled matches {run.blocking.recall:.4f}"
    )
    typer.echo(f"blocking: {len(run.blocking.predicates)} predicates, {run.blocking.pairs} pairs{recall}")
    if pairs and run.pull is None:
        typer.echo(f"labels: {run.labelled} pairs, with which nothing is seen to be better: they change no score")
    elif pairs:
        typer.echo(f"labels: {run.labelled} pairs, pulled by {run.pull:g} towards what is known without them")
    typer.echo(f"clusters: {told['method']}, threshold {told['threshold']:g} ({run.seconds:.1f} s)")
    typer.echo(f"saved {target}")


def _lines(report: DedupeReport) -> str:
    return (
        f"records {report.records}\n"
        f"pairwise  precision {report.precision:.4f}  recall {report.recall:.4f}  F1 {report.pairwise_f1:.4f}\n"
        f"B-cubed   precision {report.b_cubed_precision:.4f}  recall {report.b_cubed_recall:.4f}  "
        f"F1 {report.b_cubed:.4f}\n"
        f"clusters  F1 {report.cluster_f1:.4f}"
    )
