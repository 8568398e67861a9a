"""Options of a dataclass become options of a command; those that a choice makes no use of are an error where given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from loopwise.cli.groups import grouped, refuse_idle
from oracles.commands import command


@dataclass(frozen=True)
class Shape:
    rows: Annotated[int, typer.Option(help="So many.", min=1)]
    wide: Annotated[bool, typer.Option("--wide", help="Twice as many columns.")] = False


def test_a_group_is_its_options() -> None:
    app = typer.Typer()

    @app.command()
    @grouped
    def draw(name: Annotated[str, typer.Argument(help="Of what.")], shape: Shape, seed: int = 0) -> None:
        """Draw."""
        typer.echo(f"{name} {shape} {seed}")

    invoke, succeed = command(app)
    assert succeed("tree", "--rows", 2, "--seed", 5).stdout == "tree Shape(rows=2, wide=False) 5\n"
    assert succeed("tree", "--rows", 3, "--wide").stdout == "tree Shape(rows=3, wide=True) 0\n"
    assert invoke("tree").exit_code == 2  # an option without a default is needed
    assert invoke("tree", "--rows", 0).exit_code == 2
    assert "So many." in succeed("--help").stdout


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
