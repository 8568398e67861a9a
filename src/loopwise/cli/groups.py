"""Options that several commands share, as one parameter; and options that go with one choice and not with another.

In: a command with a parameter that is a dataclass of options. Out: the same command with these options one by one, as
Typer wants them; a ``ValueError`` where an option is given that the choice makes no use of. Below the commands.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of lines.")]
Checkpoint = Annotated[Path | None, typer.Option(help="A file from which the same command goes on if it was stopped.")]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` as Typer is to see it: each parameter that is a dataclass gives way to its fields, which are options.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     rows: int
    ...     columns: int = 3
    >>> @grouped
    ... def draw(name: str, size: Size) -> None:
    ...     print(name, size.rows * size.columns)
    >>> draw(name="a", rows=2, columns=5)
    a 10
    >>> list(inspect.signature(draw).parameters)
    ['name', 'rows', 'columns']
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            shown.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        kinds = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            shown.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[field.name]
                )
            )

    @functools.wraps(command)
    def call(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)}) for name, kind in groups.items()
        }
        command(**given, **made)

    call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    del call.__wrapped__
    return call


@dataclass(frozen=True)
class SeveralAnswers:
    """Several answers in place of one."""

    k: Annotated[
        int | None, typer.Option("--k", min=1, help="So many of the most probable answers, with their probabilities.")
    ] = None
    samples: Annotated[
        int | None, typer.Option(min=1, help="So many answers drawn from the model, with their probabilities.")
    ] = None
    seed: Annotated[int, typer.Option(help="For --samples.")] = 0

    @property
    def wanted(self) -> bool:
        """Whether several are asked for."""
        return self.k is not None or self.samples is not None

    def check(self) -> None:
        """Raises where both kinds are asked for."""
        if self.k is not None and self.samples is not None:
            raise ValueError("--k lists the best answers, --samples draws some; ask for one of the two")


def refuse_idle(context: typer.Context, choice: str, options: Mapping[str, Collection[str]]) -> None:
    """``options``: by the name of the parameter, the choices that make use of it. Defaults are nobody's mistake."""
    for name, users in options.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and choice not in users:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for {', '.join(users)}; {choice} does not use it, so leave it out")
