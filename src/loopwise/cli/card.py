"""``loopwise card``: what a saved model is, what it was trained on, how good it was, what it costs.

In: a file that ``save`` or a command wrote. Out: its card on standard output.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from loopwise.cli.messages import one_line_each


def card(
    model: Annotated[Path, typer.Argument(help="A file that was saved by loopwise.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON instead of Markdown.")] = False,
) -> None:
    """What there is to know of a saved model, without running it."""
    with one_line_each():
        from loopwise.learn.files.card import model_card

        found = model_card(model)
        typer.echo(json.dumps(found.to_json()) if as_json else found.to_markdown())
