"""Options that a choice makes no use of are an error where somebody gave them."""

from __future__ import annotations

import typer

from loopwise.cli.relevant import refuse_idle
from oracles.commands import command


def test_idle_options() -> None:
    app = typer.Typer()

    @app.command()
    def train(context: typer.Context, learner: str = "svm", l2_norm: float = 1.0) -> None:
        try:
            refuse_idle(context, learner, {"l2_norm": ("likelihood", "risk")})
        except ValueError as problem:
            typer.echo(str(problem))

    _, succeed = command(app)
    assert succeed("--learner", "svm").stdout == ""  # its default is nobody's mistake
    assert succeed("--learner", "risk", "--l2-norm", 2).stdout == ""
    assert succeed("--l2-norm", 1).stdout == "--l2-norm is for likelihood, risk; svm does not use it, so leave it out\n"
