"""``loopwise evaluate``: how good a trained system is on a table that holds the answers.

The measures go to standard output, as lines or as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import AsJson
from loopwise.cli.messages import one_line_each
from loopwise.cli.tables import (
    asked_for,
    named,
    output_names,
    positive_values,
    predicted,
    read_examples,
    read_saved,
    tell_of_unmet,
)

if TYPE_CHECKING:
    from loopwise.learn import Examples, System


def evaluate(
    system: Annotated[Path, typer.Argument(help="A file that loopwise fit saved.")],
    data: Annotated[Path, typer.Argument(help="A .csv table; rows count as far as their outputs are not empty.")],
    columns: Annotated[
        str | None, typer.Option(help="Of a model of any columns (fit --outputs all): those to predict.")
    ] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns that are no variables, separated by commas.")] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; evaluation draws nothing.")] = 0,
) -> None:
    """Accuracy, F1 and losses of a trained system on a table."""
    with one_line_each():
        trained = asked_for(read_saved(system), named(columns, "--columns"))
        examples = read_examples(trained, data, named(ignore, "--ignore"))
        tell_of_unmet(system, trained, examples)
        measures, accuracies = _measures(trained, examples), _accuracies(trained, examples)
        if as_json:
            report = {"rows": len(examples), "measures": measures, "accuracy_of": accuracies}
            typer.echo(json.dumps(report, allow_nan=False))
            return
        for name, value in measures.items():
            typer.echo(f"{name.replace('_', ' '):26} {value:.4f}")
        for name, share in accuracies.items():
            typer.echo(f"{'accuracy of ' + name:26} {'no answers' if share is None else f'{share:.4f}'}")


def _measures(system: System, examples: Examples) -> dict[str, float]:
    from loopwise import learn
    from loopwise import loss as losses
    from loopwise.loss import metric

    assert system.vocabulary is not None
    positive: Any = getattr(system.decoder, "positive", None)
    if positive is None:
        positive = positive_values(system.vocabulary, output_names(system), None)
    pooled = losses.Pooled()
    goals: dict[str, Any] = {
        "accuracy": metric.Accuracy(reduction=pooled),
        "f1": metric.F1Score(positive=positive, reduction=pooled),
        "mse": losses.OnBeliefs(losses.MSE(reduction=pooled)),
        "log_loss": losses.OnBeliefs(losses.UnivariateLikelihood(reduction=pooled)),
        "negative_log_likelihood": losses.SurrogateLikelihood(),
    }
    return learn.evaluate(system, examples, goals)


def _accuracies(system: System, examples: Examples) -> dict[str, float | None]:
    """The share of right answers of each output; None where no answer is known."""
    assert system.vocabulary is not None
    answers = predicted(system, examples)[0]
    found: dict[str, float | None] = {}
    for name in output_names(system):
        place = system.vocabulary.variable(name)
        known = examples.values[:, place] >= 0
        right = answers[known, place] == examples.values[known, place]
        found[name] = float(right.mean()) if known.any() else None
    return found
