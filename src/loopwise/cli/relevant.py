"""Options that go with one choice and not with another: given with the wrong one they are an error, not ignored.

In: the context of a command, the choice, who each option is for. Out: nothing, or a ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import typer


def refuse_idle(context: typer.Context, choice: str, options: Mapping[str, Collection[str]]) -> None:
    """``options``: by the name of the parameter, the choices that make use of it. Defaults are nobody's mistake."""
    for name, users in options.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and choice not in users:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for {', '.join(users)}; {choice} does not use it, so leave it out")
