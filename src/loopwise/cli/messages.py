"""What commands say on standard error: one sentence for an error, one line for a warning, one for the status.

In: exceptions and warnings of the library. Out: lines, and exit code 2 after an error.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

FAILURE = 2
SHOWN = 40  # characters of an endless word
_ENDLESS = re.compile(r"\S{400,}")  # longer than the paths that people have


def say(line: str) -> None:
    """One line on standard error."""
    typer.echo(" ".join(line.split()), err=True)


def complain(sentence: str) -> None:
    """An error, on one line."""
    say(f"error: {_readable(sentence)}")


def _readable(sentence: str) -> str:
    """A sentence without endless words: what somebody else's message (of the command line, say) quotes whole."""
    return _ENDLESS.sub(lambda word: f"{word[0][:SHOWN]}… ({len(word[0])} characters)", sentence)


@contextmanager
def one_line_each() -> Iterator[None]:
    """Turns the errors a user can cause into one sentence and exit code 2, and warnings into one line.

    Anything else is a fault of the program and keeps its traceback.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)  # what the library has to say, not what libraries plan to change
        warnings.showwarning = _show_warning
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as problem:
            complain(_file_problem(problem))
            raise typer.Exit(FAILURE) from None
        except ValueError as problem:
            complain(str(problem))
            raise typer.Exit(FAILURE) from None
        except MemoryError:
            complain("the computer's memory does not suffice; use a smaller model or another method")
            raise typer.Exit(FAILURE) from None


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    say(f"warning: {_readable(str(message))}")


def _file_problem(problem: OSError) -> str:
    reason = (problem.strerror or str(problem)).rstrip(".")
    reason = reason[:1].lower() + reason[1:]
    return f"{problem.filename}: {reason}" if problem.filename is not None else reason


def is_interactive() -> bool:
    """Whether a person watches standard error: progress is for them only."""
    return sys.stderr.isatty()
