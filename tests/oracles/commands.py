"""Commands as a test calls them: in this process, with what they print and how they end."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner, Result
from typer import Typer
from typer.main import get_command

Invoke = Callable[..., Result]


def command(app: Typer, *first: str) -> tuple[Invoke, Invoke]:
    """Two ways to call ``app`` with ``first`` before all arguments: to look at the result, to rely on success."""
    runner, whole = CliRunner(), get_command(app)  # once: Typer's own runner makes the command anew at every call

    def invoke(*arguments: object, text: str | None = None) -> Result:
        return runner.invoke(whole, [*first, *map(str, arguments)], input=text)

    def succeed(*arguments: object, text: str | None = None) -> Result:
        result = invoke(*arguments, text=text)
        assert result.exit_code == 0, (result.stderr, result.exception)
        return result

    return invoke, succeed


def assert_one_sentence(result: Result, *words: str) -> None:
    """It failed as for bad input: nothing printed but one sentence, with ``words`` in it."""
    assert result.exit_code == 2, result.exception
    assert result.stdout == ""
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr, result.stderr
