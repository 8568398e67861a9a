"""A progress bar for people: nothing is shown where nobody watches.

In: how many steps there are. Out: a function that is told of each. Stage: learning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loopwise.notebook import NotebookBar, in_notebook

Tell = Callable[[float, str], None]  # how many steps are done, and what to write beside the bar


def silent(done: float, text: str) -> None:
    """Shows nothing."""


@contextmanager
def progress_bar(wanted: bool, total: int) -> Iterator[Tell]:
    """A bar on standard error, if that is a terminal and the bar is ``wanted``; in a notebook, in the cell's output."""
    if wanted and in_notebook():
        shown = NotebookBar(total)
        try:
            yield shown.tell
        finally:
            shown.close()
        return
    if not (wanted and sys.stderr.isatty()):
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training (the first run compiles for some seconds)", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=text)
