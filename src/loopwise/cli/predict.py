"""``loopwise predict``: the outputs of a trained system for the rows of a table.

The predictions go to standard output or a file, as a table or as JSON with probabilities.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.messages import one_line_each
from loopwise.cli.tables import asked_for, named, output_names, predicted, read_examples, read_saved, tell_of_unmet
from loopwise.cli.targets import target_of

if TYPE_CHECKING:
    from loopwise.learn import Examples, System


def predict(
    system: Annotated[Path, typer.Argument(help="A file that loopwise fit saved.")],
    data: Annotated[
        Path,
        typer.Argument(help="A .csv table; columns go by their names, and those to predict may be absent or empty."),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            help="Of a model of any columns (fit --outputs all): those to predict; their own cells are not looked at."
        ),
    ] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns that are no variables, separated by commas.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, with the probability of each label.")] = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; prediction draws nothing.")] = 0,
) -> None:
    """Predict the outputs of each row of a table."""
    with one_line_each():
        from loopwise.formats import atomic_write
        from loopwise.formats.table import write_table

        target = target_of(out, inputs=(system, data))
        trained = asked_for(read_saved(system), named(columns, "--columns"))
        assert trained.vocabulary is not None
        examples = read_examples(trained, data, named(ignore, "--ignore"))
        tell_of_unmet(system, trained, examples)
        if as_json:
            with atomic_write(target) as stream:
                stream.write(json.dumps(_rows(trained, examples), allow_nan=False) + "\n")
        else:
            write_table(target, trained.vocabulary, predicted(trained, examples)[0], columns=output_names(trained))


def _rows(system: System, examples: Examples) -> dict[str, Any]:
    """Label and probabilities of each output, row by row."""
    assert system.vocabulary is not None
    values, marginals = (found.tolist() for found in predicted(system, examples))
    rows = []
    for chosen, beliefs in zip(values, marginals, strict=True):
        row = {}
        for name in output_names(system):
            place = system.vocabulary.variable(name)
            labels = system.vocabulary.labels[place]
            shares = dict(zip(labels, beliefs[place], strict=False))  # beliefs are padded to the longest
            row[name] = {"label": labels[chosen[place]], "probabilities": shares}
        rows.append(row)
    return {"outputs": output_names(system), "rows": rows}
