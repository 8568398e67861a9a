"""Options of a dataclass become options of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from loopwise.cli.groups import grouped
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
